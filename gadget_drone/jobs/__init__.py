"""What a session's commands run in the background: `jobs` has them, `job` is one, `ring` what it printed."""
