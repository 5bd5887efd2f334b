"""Exchange with other programs, one file each."""
