"""The spool's layout: src/record/spool.h in Python, names and all.

Little endian.  A record is RECORD (mark, check, type, length) and `length` bytes, padded to a
multiple of 8; with REPLACED it is two halves, each HALF (length, check, round) and its content.
"""

import struct

MAGIC = b"PYHSPOOL"
VERSION = 9
MARK = 0x6C6F6F70
REPLACED = 1 << 31

# enum spool_type
(META, MODULE, MODULE_END, CODE, THREAD, THREAD_NAME, STACKS, FUNCTIONS, SAMPLES, COUNTERS, END) = (
    range(1, 12)
)
EXACT_THREAD, EXACT_NODES, EXACT_COUNTERS, CLOCK, REGION = range(12, 17)
EVENTS, CALLS, CALL_TIMES, C_FUNCTION, FUNCTION_NAME, CODE_FACTS = range(17, 23)
SAMPLE_SEGMENT, SUMS, MERGED, WATCHED, LATER, LATER_NAME = range(23, 29)
LATER_TURNS, THREAD_HANDLE, CLOCK_PAIR, DEVICE_WORK, FOLDED = range(29, 34)

HEADER = struct.Struct("<8sIIQ")
RECORD = struct.Struct("<IIII")
HALF = struct.Struct("<IIQ")
MODULE_HEAD = struct.Struct("<IIQQII")
SEGMENT = struct.Struct("<QQQQ")
MODULE_END_HEAD = struct.Struct("<IIQ")
CODE_HEAD = struct.Struct("<IIIIII")
THREAD_HEAD = struct.Struct("<IIQQ16s")
THREAD_NAME_HEAD = struct.Struct("<II")
STACKS_HEAD = struct.Struct("<II")
SAMPLES_HEAD = struct.Struct("<IIIIQ")
SAMPLE_SEGMENT_HEAD = struct.Struct("<Q")
SUMS_HEAD = struct.Struct("<II")
SUM = struct.Struct("<IIQQQQ")
MERGED_HEAD = struct.Struct("<Q")
COUNTERS_HEAD = struct.Struct("<IIQQQQQ8Q8Q64I")
END_HEAD = struct.Struct("<QQIIQI4xq")
EXACT_THREAD_HEAD = struct.Struct("<II")
EXACT_NODES_HEAD = struct.Struct("<IIII")
EXACT_COUNTERS_HEAD = struct.Struct("<IIII")
EXACT_COUNT = struct.Struct("<IIQQQQ")
CLOCK_HEAD = struct.Struct("<QQQQ")
REGION_HEAD = struct.Struct("<II")
LATER_HEAD = struct.Struct("<II")
LATER_SUM = struct.Struct("<IIIIQ")
LATER_NAME_HEAD = struct.Struct("<II")
LATER_TURN = struct.Struct("<QQIIII")
THREAD_HANDLE_BODY = struct.Struct("<II")
CLOCK_PAIR_BODY = struct.Struct("<QQ")
DEVICE_WORK_HEAD = struct.Struct("<II")
FOLDED_BODY = struct.Struct("<IIQ")
C_FUNCTION_HEAD = struct.Struct("<Q")
FUNCTION_NAME_HEAD = struct.Struct("<Q")

# A sample's word in `stack[n]`: the stack's id, and above it what the thread was about.
STACK_BITS = 28
STACK_MASK = (1 << STACK_BITS) - 1
GIL_SHIFT = 28
WAITS = 1 << 30

N_LOSSES = 8
ADDRESS_LIMIT = 1 << 56  # of a process, with 5-level paging
# enum thread_name_source
NAME_COMM, NAME_THREADING = 0, 1
EVENTS_HEAD = struct.Struct("<IIQQQ")
CODE_FACTS_HEAD = struct.Struct("<IIII")
CALLS_HEAD = struct.Struct("<I4x")
WATCHED_CALL = struct.Struct("<QQQQII")
ATTRIBUTE = struct.Struct("<HHI")
# enum spool_attribute_kind
(
    ATTRIBUTE_NONE,
    ATTRIBUTE_FALSE,
    ATTRIBUTE_TRUE,
    ATTRIBUTE_INT,
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_TEXT,
    ATTRIBUTE_OTHER,
) = range(7)
CALL_TIMES_BODY = struct.Struct("<IIQQQQ320I")
