"""The life of a turn: submitted, queued, dispatched to a drone, cancelled, moved to another drone."""
