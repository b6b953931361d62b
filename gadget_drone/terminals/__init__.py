"""Terminals of the user: `terminals` has them, `terminal` is one, `shell` what runs in it, `relay` sends its output."""
