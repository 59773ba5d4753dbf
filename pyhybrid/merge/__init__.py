"""Several profiles as one, of processes of one program."""
