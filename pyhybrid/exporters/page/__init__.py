"""The page that shows a profile: its data as columns, its sources, and the document around them."""
