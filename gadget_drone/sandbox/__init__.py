"""The sandbox that commands run in where the machine has bubblewrap: `probe`, `Standing`, `denied_by_sandbox`."""
