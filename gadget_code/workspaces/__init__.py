"""A session's files, in the workspace of the drone that has them."""
