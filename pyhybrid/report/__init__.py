"""Text for people: the summary, the tree, lines, the quality report."""
