/* sqlite_columns.c - columns of whole numbers, from and to the tables of an SQLite database.
 *
 * Millions of rows pass without an object each.  The one file that knows SQLite's interface in C
 * (https://sqlite.org/c3ref/intro.html); all short tables are read and written by Python's module.
 *
 * Context: any thread of the finishing process or of a reader, without the GIL, one at a time for a database: readers
 * within database.py's lock (in_sqlite).  Functions return 0, -ENOMEM, -EIO (sqlite_columns_message has the reason), or
 * -EINVAL where a value is no whole number of its column's kind.
 */
#include "passes.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_AT_ONCE (1 << 20)

/* As long as the query may go on.  SQLite calls it at every STEPS_AT_ONCE-th step. */
static int used_up(void *left)
{
    uint64_t *n = left;
    return *n < STEPS_AT_ONCE || !(*n -= STEPS_AT_ONCE);
}

int sqlite_columns_open(struct sqlite3 **db, const char *name, int writable)
{
    /* Every value that is bound or read would lock and unlock SQLite's own mutex. */
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
                (writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
    int r = sqlite3_open_v2(name, db, flags, NULL);
    if (r == SQLITE_OK && writable)
        r = sqlite3_exec(*db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", NULL, NULL, NULL);
    return !*db ? -ENOMEM : r == SQLITE_OK ? 0 : -EIO;
}

void sqlite_columns_close(struct sqlite3 *db)
{
    sqlite3_close(db);
}

const char *sqlite_columns_message(struct sqlite3 *db)
{
    return sqlite3_errmsg(db);
}

static size_t size_of(char kind)
{
    return kind == 'I' ? sizeof(uint32_t) : sizeof(int64_t);
}

static int make_room(const char *kinds, void **data, size_t n_rows)
{
    for (size_t i = 0; kinds[i]; i++) {
        void *larger = realloc(data[i], n_rows * size_of(kinds[i]));
        if (!larger)
            return -ENOMEM;
        data[i] = larger;
    }
    return 0;
}

static int take_row(sqlite3_stmt *query, const char *kinds, void **data, size_t row)
{
    for (int i = 0; kinds[i]; i++) {
        if (sqlite3_column_type(query, i) != SQLITE_INTEGER)
            return -EINVAL;
        int64_t value = sqlite3_column_int64(query, i);
        if (kinds[i] == 'q')
            ((int64_t *)data[i])[row] = value;
        else if (value >= 0 && value <= UINT32_MAX)
            ((uint32_t *)data[i])[row] = (uint32_t)value;
        else
            return -EINVAL;
    }
    return 0;
}

int sqlite_columns_read(struct sqlite3 *db, uint64_t most_steps, const char *sql, const char *kinds,
                        void **data, size_t *n_rows)
{
    sqlite3_progress_handler(db, STEPS_AT_ONCE, used_up, &most_steps);
    sqlite3_stmt *query = NULL;
    size_t n = 0, room = 1024;
    memset(data, 0, strlen(kinds) * sizeof *data);
    int r = make_room(kinds, data, room), step = SQLITE_DONE;
    if (!r && sqlite3_prepare_v2(db, sql, -1, &query, NULL) != SQLITE_OK)
        r = -EIO;
    if (!r && sqlite3_column_count(query) != (int)strlen(kinds))
        r = -EINVAL;
    while (!r && (step = sqlite3_step(query)) == SQLITE_ROW) {
        if (n == room)
            r = make_room(kinds, data, room *= 2);
        if (!r)
            r = take_row(query, kinds, data, n++);
    }
    if (!r && step != SQLITE_DONE)
        r = -EIO;
    sqlite3_finalize(query);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    for (size_t i = 0; r && kinds[i]; i++) {
        free(data[i]);
        data[i] = NULL;
    }
    *n_rows = n;
    return r;
}

static int put_rows(sqlite3_stmt *insert, const char *kinds, const void *const *data, size_t first,
                    size_t n)
{
    int parameter = 0;
    for (size_t row = first; row < first + n; row++)
        for (int i = 0; kinds[i]; i++) {
            int64_t value = kinds[i] == 'I' ? ((const uint32_t *)data[i])[row]
                                            : ((const int64_t *)data[i])[row];
            if (sqlite3_bind_int64(insert, ++parameter, value) != SQLITE_OK)
                return -EIO;
        }
    return sqlite3_step(insert) == SQLITE_DONE && sqlite3_reset(insert) == SQLITE_OK ? 0 : -EIO;
}

/* An INSERT of n rows; NULL: there is no memory. */
static char *insert_of(const char *insert, const char *row, size_t n)
{
    size_t begin = strlen(insert), each = strlen(row) + 1;
    char *sql = malloc(begin + n * each + 1);
    if (!sql)
        return NULL;
    memcpy(sql, insert, begin);
    for (size_t i = 0; i < n; i++) {
        memcpy(sql + begin + i * each, row, each - 1);
        sql[begin + (i + 1) * each - 1] = ',';
    }
    sql[begin + n * each - 1] = 0; /* not the last comma */
    return sql;
}

/* The rows from *at on, n at once, as long as there are so many. */
static int put_groups(struct sqlite3 *db, const char *insert, const char *row, const char *kinds,
                      const void *const *data, size_t *at, size_t n_rows, size_t n)
{
    sqlite3_stmt *statement = NULL;
    char *sql = insert_of(insert, row, n);
    int r = sql ? 0 : -ENOMEM;
    if (!r && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        r = -EIO;
    for (; !r && n_rows - *at >= n; *at += n)
        r = put_rows(statement, kinds, data, *at, n);
    sqlite3_finalize(statement);
    free(sql);
    return r;
}

int sqlite_columns_write(struct sqlite3 *db, const char *insert, const char *row, const char *kinds,
                         const void *const *data, size_t n_rows)
{
    if (sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        return -EIO;
    size_t at = 0;
    int r = *row ? put_groups(db, insert, row, kinds, data, &at, n_rows, SQLITE_ROWS_AT_ONCE) : 0;
    if (!r)
        r = put_groups(db, insert, row, kinds, data, &at, n_rows, 1);
    if (!r && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        r = -EIO;
    return r;
}
