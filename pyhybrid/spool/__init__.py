"""The spool, the file that a run writes (src/record/spool.h): layout, records, reader."""
