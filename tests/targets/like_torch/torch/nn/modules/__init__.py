"""A package of like_torch."""
