"""The connection to the web service: its socket, its REST API, what is uploaded to it."""
