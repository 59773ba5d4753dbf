"""The work of a GPU, recorded while the program ran or read from a trace, and where it belongs."""
