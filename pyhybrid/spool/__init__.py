"""The spool, the file that a run writes (src/spool.h): its layout, its records, its reader."""
