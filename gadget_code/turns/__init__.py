"""What happens to a turn: submitted, dispatched, recorded, replayed, ended."""
