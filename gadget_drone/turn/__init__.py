"""The life of a turn on a drone: its offer, its work, its event stream and journal, its recovery and its end."""
