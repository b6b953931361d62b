"""What a running turn may do, and what it asks its user."""
