"""The web service: REST, Socket.IO, MongoDB, and the routing of turns to drones. Knows no model SDK."""
