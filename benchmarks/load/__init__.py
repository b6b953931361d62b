"""The load generator: simulated drones and watchers, in processes of their own, against a real web service."""
