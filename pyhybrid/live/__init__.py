"""What a process does now: its growing spool, read as it grows, and a screen of it."""
