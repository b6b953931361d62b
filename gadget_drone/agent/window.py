"""Keeping the conversation inside the model's context window: compaction, before it is too late."""
