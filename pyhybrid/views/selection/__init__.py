"""Which samples and frames a view is about."""
