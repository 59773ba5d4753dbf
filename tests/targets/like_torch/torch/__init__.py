"""Files and names as PyTorch has them, for what depends on these alone."""
