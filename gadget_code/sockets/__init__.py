"""The Socket.IO server: its limits, its frames, and the rooms that address its clients."""
