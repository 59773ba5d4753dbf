"""The profile file: schema.sql, and its tables in Python."""
