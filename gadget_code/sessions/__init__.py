"""What is done with a whole session: its history, export, fork, revert and deletion."""
