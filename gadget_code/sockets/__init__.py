"""The Socket.IO side: one server, handlers for IDE and drone connections, rooms to address them."""
