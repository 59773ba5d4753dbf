"""A server: its requests, and what each waited for."""
