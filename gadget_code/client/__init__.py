"""The terminal client: `gadget-code prompt` and `login`. Speaks REST and the socket as any other IDE does."""
