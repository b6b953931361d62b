"""What the model is sent: the system prompt and its parts, its size in tokens, and how it is made shorter."""
