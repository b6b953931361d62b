"""The drone: a daemon in a workspace directory that runs the agent loop and its tools."""
