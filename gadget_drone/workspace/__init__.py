"""The workspace directory: its files in `.gadget/`, its lock, and who holds it."""
