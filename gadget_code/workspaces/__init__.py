"""The files of a session, in the workspace of the drone that has them."""
