"""Processes that run already: which there are, a profile of one from now on, their stacks once."""
