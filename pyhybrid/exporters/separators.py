"""Names without separators."""

# Readers of what is exported cut it at line ends, and stacks at semicolons.
SEPARATORS = str.maketrans({";": ":", "\n": " ", "\r": " "})
