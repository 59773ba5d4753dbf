"""Source lines, by their samples or exact counts."""
