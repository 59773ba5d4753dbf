"""The word of a frame: src/base/frame.h in Python.  Words are compared with these limits."""

TAG_SHIFT = 61
NATIVE_LIMIT = 1 << TAG_SHIFT  # words below are native
PSEUDO_LIMIT = 2 << TAG_SHIFT  # words from here on are pseudo-frames, and from the next one on
REGION_LIMIT = 3 << TAG_SHIFT  # named regions
REGION_OBJECT = 1 << 32  # of a named region: its name is a path, NUL, a class
REGION_CAUSE = 1 << 33  # of a named region: work that is done later for it
C_CALL_LIMIT = 4 << TAG_SHIFT  # calls of C functions, which are native words but for the tag
LINE_LIMIT = 5 << TAG_SHIFT  # lines of the exact half's functions: no frames (exact_half.py)
KERNEL_LIMIT = 6 << TAG_SHIFT  # addresses of the kernel
OFFSET_BITS = 24
OFFSET_MASK = (1 << OFFSET_BITS) - 1
OFFSET_UNKNOWN = OFFSET_MASK  # the function is known, where it is in it is not
CODE_MASK = (1 << 32) - 1
KERNEL_ADDRESS_MASK = (1 << 64) - 1
