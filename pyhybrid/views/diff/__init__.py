"""Runs of one program, compared."""
