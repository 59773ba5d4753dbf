"""From a spool to the tables of a profile: names are found, stacks become the tree."""
