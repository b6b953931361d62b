"""Git, run by the drone and by the agent's tool, on repositories that may be hostile."""
