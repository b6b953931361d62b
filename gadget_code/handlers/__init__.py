"""The socket API: connections, and the handler of each event that an IDE or a drone sends."""
