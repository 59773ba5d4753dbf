"""Names without separators."""

# `str.translate` takes several times as long for a character that its table lacks.
ASCII = {code: code for code in range(128)}
# Readers of what is exported cut it at line ends, and stacks at semicolons.
SEPARATORS = ASCII | str.maketrans({";": ":", "\n": " ", "\r": " "})
