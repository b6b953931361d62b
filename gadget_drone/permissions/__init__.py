"""Permissions: what a call would reach, and what is decided about it.

`accesses_of` (shell.py) reads a command line, `decide` (decide.py) judges; the words for it are in gadget_api.
"""
