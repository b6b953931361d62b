"""Authentication: accounts, passwords, the browser's cookie, the limits on sign-in attempts."""
