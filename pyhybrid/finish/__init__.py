"""What becomes of a spool: the finishing process, and what works beside it."""
