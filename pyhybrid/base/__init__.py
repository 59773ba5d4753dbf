"""What every room may use: messages, patterns of names, files of the package, pseudo-frames."""
