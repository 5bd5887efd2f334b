"""Writing and reading files: whole or not at all, one writer at a time."""
