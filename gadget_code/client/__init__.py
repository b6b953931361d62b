"""The terminal client: `gadget-code prompt` and `login`. Uses REST and the socket like any other IDE."""
