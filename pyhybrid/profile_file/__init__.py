"""The profile file: its tables, and what is read of them."""
