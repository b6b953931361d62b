"""Changing texts: where a change belongs, patches, merging, and what the model has seen. Raises `ToolError`."""
