"""What every HTTP request and response passes: host, origin and size checks, problem documents, the IDE's files."""
