"""The sandbox that commands run in where the machine has bubblewrap: `probe`, `wrap`, `denied_by_sandbox`."""
