"""What any part of the running process needs: background tasks, child processes, logs, metrics."""
