"""Child processes: found, started, watched over, ended with the drone."""
