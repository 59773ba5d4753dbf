"""The spool's layout, as src/record/spool.h declares it; words are those of src/base/frame.h.

Little endian.  A record is RECORD (mark, check, type, length) and `length` bytes, padded to a
multiple of 8; with SPOOL_REPLACED it is two halves, each HALF (length, check, round) and its
content.
"""

from struct import Struct

from pyhybrid._columns import SPOOL_MAGIC, SPOOL_STRUCTS, SPOOL_TYPES

MAGIC = SPOOL_MAGIC.encode()
TYPE = SPOOL_TYPES  # of records, by their name in enum spool_type
STRUCT = {name: Struct(form) for name, form in SPOOL_STRUCTS.items()}  # without what is padding
HEADER, RECORD, HALF = STRUCT["spool_header"], STRUCT["spool_record"], STRUCT["spool_half"]
EXACT_COUNT = STRUCT["spool_exact_count"]
ADDRESS_LIMIT = 1 << 56  # of a process, with 5-level paging
