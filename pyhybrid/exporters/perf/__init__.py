"""perf.data, and the files by which perf names what is in it."""
