"""Paths and files: no way out of a directory, no half-written file."""
