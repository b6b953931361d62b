"""What every HTTP request passes: checks of host, origin and size; errors as problem documents; the IDE's files."""
