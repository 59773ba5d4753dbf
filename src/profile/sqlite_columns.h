/* sqlite_columns.h - columns of whole numbers, from and to the tables of an SQLite database.
 *
 * Millions of rows pass without an object each.  The one file that knows SQLite's interface in C
 * (https://sqlite.org/c3ref/intro.html); all short tables are read and written by Python's module.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL, one at a time for a database: readers within
 * database.py's lock (in_sqlite).  Functions return 0, -ENOMEM, -EIO (sqlite_columns_message says what), or -EINVAL where a value is no
 * whole number of its column's kind.
 */
#ifndef PYH_SQLITE_COLUMNS_H
#define PYH_SQLITE_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

struct sqlite3;

/* `name` as SQLite takes it: a path or a URI.  What is written is not flushed: the file counts when all of it is there. */
int sqlite_columns_open(struct sqlite3 **db, const char *name, int writable);
void sqlite_columns_close(struct sqlite3 *db); /* NULL: nothing */
const char *sqlite_columns_message(struct sqlite3 *db);

/* A statement costs as much as some rows, and SQLite knows where the next row of it goes: so many are written by one.
 * Before 3.32 it takes 999 values at most. */
enum { SQLITE_ROWS_AT_ONCE = 64 };

/* The rows of a query: data[i] is column i, of `kinds[i]`: I (uint32) or q (int64); free() it, NULL after an error.  -EIO, also,
 * where it takes more than `most_steps` of SQLite's machine, by about a million. */
int sqlite_columns_read(struct sqlite3 *db, uint64_t most_steps, const char *sql, const char *kinds,
                        void **data, size_t *n_rows);

/* A row for each value of the columns, in one transaction, by SQL that begins with `insert` and goes on with `row`, whose
 * parameters are a row's values: several at once, "INSERT INTO t VALUES" "(?,?),(?,?)".  `row` "": `insert` is of one. */
int sqlite_columns_write(struct sqlite3 *db, const char *insert, const char *row, const char *kinds,
                         const void *const *data, size_t n_rows);

#endif
