"""Frameworks whose programs are shown in their own terms: what is known of them, as data.

Each is a table, NAME.toml, and a module of its name, which is imported where the program imports
the framework, and by what shows its profile.  Without the framework nothing of it is loaded.
"""
