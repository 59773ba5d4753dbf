"""The options of a run: one table, how values are read, where they come from."""
