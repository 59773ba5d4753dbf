"""One file for each group of figures: `measure(pairs)` returns the figures it measured."""
