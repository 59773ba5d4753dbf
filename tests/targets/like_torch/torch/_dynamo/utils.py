"""The record of compiles."""

from collections import deque

_compilation_metrics = deque(maxlen=64)
