"""What a running turn may do (policies), and what it asks its user (inquiries)."""
