"""In a notebook: the magic `%%pyhybrid`, and how a profile is shown below a cell."""
