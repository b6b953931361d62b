"""Who is asking: passwords, tokens, and the limits on guessing them."""
