"""The agentic workflow loop, and what surrounds it for one turn."""
