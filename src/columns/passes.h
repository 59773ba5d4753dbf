/* passes.h - the passes over columns, and what makes each a function of Python's.
 */
#ifndef PYH_PASSES_H
#define PYH_PASSES_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030c0000
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

#include "spool.h"

/* --- arguments.c --------------------------------------------------------------------------------- */

struct argument {
    const void *data; /* NULL: left out */
    size_t n;         /* values */
    size_t size;      /* of one, in bytes */
    uint64_t number;
    Py_buffer view;
};

struct result {
    void *data;
    size_t n; /* how many there is room for, as the pass begins; how many there are, as it ends */
};

/* `takes` has a letter for each argument: a column of B (uint8), I (uint32), q (int64 or uint64), or x (any of these);
 * or n: a number.  Columns have one length but for those followed by `*`; what is followed by `?` may be None or left
 * out.  `gives` has the results, by the same letters: columns (x: of the first argument's kind), or a number, which is
 * left in `n`.  `room` returns how many values a result has room for; NULL: as many as the columns have. */
struct pass {
    const char *name, *takes, *gives;
    size_t (*room)(const struct argument *in);
    int (*run)(const struct argument *in,
               struct result *out); /* 0 or -errno, as columns.c has it */
};

enum { MOST_ARGUMENTS = 8, MOST_RESULTS = 24 };

PyObject *pass_call(const struct pass *pass, PyObject *const *args, Py_ssize_t n_args);

/* The same, for passes that are not all of a function. */
int argument_borrow(struct argument *a, PyObject *of, char kind); /* until argument_release */
void argument_release(struct argument *a);
int pass_failed(int error); /* sets the exception for a pass's error, and returns it */
PyObject *column_new(size_t n, char kind,
                     void *data); /* bytes of n values; *data is their memory */
PyObject *column_view(PyObject *bytes, size_t n, char kind); /* its first n; takes the reference */

#define NO_NUMBER INT64_MIN /* in a column of int64: the row has none */

/* --- columns.c ----------------------------------------------------------------------------------- */

/* group[i] numbers the distinct pairs (a[i], b[i]) from 0 on in order of their first rows, which are first[group].
 * Both have room for n; *n_groups is how many there are. */
int columns_pairs(const uint32_t *a, const uint32_t *b, size_t n, uint32_t *group, uint32_t *first,
                  size_t *n_groups);

/* Does the same for the distinct values of one column. */
int columns_distinct(const uint64_t *value, size_t n, uint32_t *group, uint32_t *first,
                     size_t *n_groups);

/* shifted[i] = value[i] + by. */
int columns_shift(const uint32_t *value, size_t n, uint64_t by, uint32_t *shifted);

/* Merges rows into paths: node[i] numbers the distinct paths of labels, in order of their first rows; 0 is the root.
 * how[i], of enum path_how, marks the rows that are no step of their own: these have the node of the row above.
 * `rather` (or NULL) has a row that comes before, below whose node a row hangs instead, where its label has a node
 * there that is asked for by an earlier row (PATH_ASKED).  All columns have room for n; node_parent and node_label are
 * the nodes', of which there are *n_nodes. */
enum path_how {
    PATH_ABOVE = 1,     /* none */
    PATH_NOT_FIRST = 2, /* none right below the root */
    PATH_RUN = 4,       /* none below a node of the same label */
    PATH_ASKED = 16,    /* its node takes in what would `rather` be there */
};
int columns_paths(const uint32_t *parent, const uint32_t *label, const uint8_t *how,
                  const uint32_t *rather, size_t n, uint32_t *node, uint32_t *node_parent,
                  uint32_t *node_label, size_t *n_nodes);

/* A finite automaton from the root down: state[i] = step[256 * (its parent's state) + input[i]], the root's is 0. */
int columns_descend(const uint32_t *parent, const uint8_t *input, size_t n, const uint8_t *step,
                    size_t n_states, uint8_t *state);

/* taken[i] = table[index[i]], of a table whose values have `size` bytes: 1, 4 or 8. */
int columns_take(const void *table, size_t size, size_t n_table, const uint32_t *index, size_t n,
                 void *taken);

/* Orders the rows by (high, low); equal ones keep their order. */
int columns_order(const uint32_t *high, const uint32_t *low, size_t n, uint32_t *row);

/* marked[i] is 1 where i is one of `index`, else 0. */
int columns_mark(const uint32_t *index, size_t n, uint8_t *marked, size_t n_marked);

/* row[0 ... *n_rows - 1] are those whose value, of `size` bytes (1, 4, or 8 with a sign), is `least` or more. */
int columns_rows_from(const void *value, size_t size, size_t n, uint64_t least, uint32_t *row,
                      size_t *n_rows);

/* at[i]: i itself if it is marked, else the nearest row above it that is, or 0. */
int columns_nearest(const uint32_t *parent, const uint8_t *marked, size_t n, uint32_t *at);

/* Collects, for each of the `n` rows of `from`, its value and those of the rows above it, but for the root's, from
 * itself on and `most` at most: they are values[end[i - 1] ... end[i] - 1].  There is room for columns_climb_room() of
 * them. */
int columns_climb(const uint32_t *parent, const int64_t *value, size_t n_rows, const uint32_t *from,
                  size_t n, uint64_t most, int64_t *values, int64_t *end);
size_t columns_climb_room(const uint32_t *parent, size_t n_rows, const uint32_t *from, size_t n,
                          uint64_t most);

/* outer[i] is 1 where no marked row above i has its label. */
int columns_outermost(const uint32_t *parent, const uint32_t *label, const uint8_t *marked,
                      size_t n, uint8_t *outer);

/* Adds to each row's value those of all rows below it. */
int columns_inclusive(const uint32_t *parent, int64_t *value, size_t n);

/* Makes each row's value what its children's add up to, where that is more. */
int columns_at_least(const uint32_t *parent, int64_t *value, size_t n);

/* sum[g] = the values of the rows of group g; `where` NULL: all rows, else those where it is not 0.  `sum` is
 * zeroed. */
int columns_add_up(const uint32_t *group, const int64_t *value, const uint8_t *where, size_t n,
                   int64_t *sum, size_t n_groups);

/* moved[i] is address[i] plus what its module is moved by.  That is the one that lies around it, of those with the path
 * of the module that its function is of, usual[i] (a library can be loaded twice), else that one; 0, and an
 * address of NO_NUMBER: nothing is moved.  Spans come by their begins, each of a module; modules have a path's number, and by how much they are moved. */
struct module_spans {
    const int64_t *begin, *end;
    const uint32_t *module;
    size_t n;
    const uint32_t *path; /* by module */
    const int64_t *by;
    size_t n_modules;
};
int columns_relocate(const int64_t *address, const uint32_t *usual, size_t n,
                     const struct module_spans *spans, int64_t *moved);

/* moved[i] is the place of a sample (spool.h) whose stack is row[its own]. */
int columns_restack(const uint32_t *place, size_t n, const uint32_t *row, size_t n_rows,
                    uint32_t *moved);

/* --- call_rows.c --------------------------------------------------------------------------------- */

/* A tick has multiply / divide nanoseconds; `ticks` were at `ns`. */
struct call_clock {
    uint64_t multiply, divide;
    uint64_t ticks, ns;
};

/* The turns in order of time, those first that are a whole call: `row` counts them all by their begin, from 1. */
struct call_columns {
    uint32_t *row, *serial, *node;
    uint32_t *info; /* flags, and weight_bits << 16 */
    int64_t *begin_ns, *end_ns;
    uint32_t
        *around; /* the row of the innermost turn of the thread that it lies within; 0: of none */
    size_t n_whole, n;
};

/* Where the attributes of calls are. */
struct call_attributes {
    uint32_t *serial, *at, *length;
    size_t n;
};

/* The turns of which the file has what they used, in order of time: their rows, and where that stands. */
struct usage_places {
    uint32_t *row, *at;
    size_t n;
};

/* -1: not known. */
struct usage_columns {
    int64_t *cpu_begin_ns, *cpu_end_ns, *cpu_ns, *user_ns, *system_ns, *process_ns;
    int64_t *minor_faults, *major_faults, *voluntary, *involuntary;
    int64_t *resident_begin, *resident_end;
};

#define CALL_ROWS_ROOM(bytes) ((bytes) / 32)

/* Reads one thread's turns, whose node i is node[i - 1] of the file; columns have CALL_ROWS_ROOM.  *n_damaged counts
 * turns without a node, and what does not fit. */
int call_rows_of(const unsigned char *turns, size_t bytes, const uint32_t *node, size_t n_nodes,
                 const struct call_clock *clock, struct call_columns *columns,
                 struct call_attributes *attributes, struct usage_places *usage, size_t *n_damaged);

/* Reads the usage at the n places.  Returns -EINVAL if one is none. */
int call_usage_of(const unsigned char *turns, size_t bytes, const uint32_t *at, size_t n,
                  const struct usage_columns *columns);

/* --- exact_rows.c -------------------------------------------------------------------------------- */

/* Puts the rows of a SPOOL_EXACT_COUNTERS record, the first of which is node `first`'s, into the n that a thread has.
 * Rows of zeros count for nothing.  *n_outside is how many others are of no node, or of the root. */
int exact_counts_add(struct spool_exact_count *into, size_t n, uint64_t first,
                     const struct spool_exact_count *rows, size_t n_rows, size_t *n_outside);

/* Do n rows follow `first` others of a tree: each has a word, and its parent before it? */
int exact_rows_follow(const uint32_t *parent, const uint64_t *word, size_t n, uint64_t first);

/* A thread's own tree: of n rows, of which row 0 is the root.  Rows that are not `kept` (lines, wrappers of decorated
 * functions) have no figures: their time is their callers'. */
struct exact_tree {
    const uint32_t *parent;
    const uint32_t *node; /* the file's: several rows may be one */
    const uint8_t *kept;
    const struct spool_exact_count *count;
    size_t n;
};

/* A tick has multiply / divide nanoseconds.  Killed: what still ran did so up to last_ticks, and a path has at least
 * the time of what is below it. */
struct exact_clock {
    uint64_t multiply, divide;
    uint64_t last_ticks;
    int killed;
};

struct exact_row_columns {
    uint32_t *node; /* ascending */
    int64_t *calls, *resumes, *raised, *seeded, *total_ns, *self_ns;
};

/* What becomes of a thread's own tree where some rows are added up; columns have room for all its rows. */
struct folded_counts {
    uint32_t *row;    /* those that stay, ascending; n_rows */
    uint32_t *place;  /* of each row as it was: which one it is, or what its sum hangs on */
    uint32_t *parent; /* of these rows, and of the sums, which follow; n */
    uint64_t *events, *calls, *resumes, *total_ticks, *since_ticks; /* the counts; n */
    uint8_t *
        called; /* of each number: CALLED_STAYS | CALLED_FOLDED, where rows of it have calls; n_numbers */
    size_t n_rows, n, n_numbers;
};

enum { CALLED_STAYS = 1, CALLED_FOLDED = 2 };

/* Rows stay that are marked, and those above them; of the others that are below the same one the counts are added up: a
 * row more, where anything was counted.  Times are those of the uppermost ones, which ran up to last_ticks.
 * `number` has what a row's function is. */
int exact_rows_fold(const struct exact_tree *tree, const uint32_t *number, uint64_t last_ticks,
                    struct folded_counts *out);

/* Finds the figures of each node that has any; the columns have room for tree->n. */
int exact_rows_of(const struct exact_tree *tree, const struct exact_clock *clock,
                  struct exact_row_columns *rows, size_t *n_rows);

/* --- line_table.c -------------------------------------------------------------------------------- */

#define LINE_TABLE_NONE (-1) /* the instructions have no line */

/* Runs of code units of one line, in order: from start[i] on lies line[i].  Both have room for n, the table's bytes;
 * *n_runs is how many there are.  Returns the first code unit behind the table. */
uint32_t line_table_runs(const uint8_t *table, size_t n, int64_t first_line, uint32_t *start,
                         int64_t *line, size_t *n_runs);

/* --- sqlite_columns.c ---------------------------------------------------------------------------- */

struct sqlite3;

/* `name` as SQLite takes it: a path or a URI.  What is written is not flushed: the file counts when all of it is
 * there. */
int sqlite_columns_open(struct sqlite3 **db, const char *name, int writable);
void sqlite_columns_close(struct sqlite3 *db); /* NULL: nothing */
const char *sqlite_columns_message(struct sqlite3 *db);

/* A statement costs as much as some rows, and SQLite knows where the next row of it goes: so many are written by one.
 * Before 3.32 it takes 999 values at most. */
enum { SQLITE_ROWS_AT_ONCE = 64 };

/* The rows of a query: data[i] is column i, of `kinds[i]`: I (uint32) or q (int64); free() it, NULL after an error.
 * -EIO, also, where it takes more than `most_steps` of SQLite's machine, by about a million. */
int sqlite_columns_read(struct sqlite3 *db, uint64_t most_steps, const char *sql, const char *kinds,
                        void **data, size_t *n_rows);

/* A row for each value of the columns, in one transaction, by SQL that begins with `insert` and goes on with `row`,
 * whose parameters are a row's values: several at once, "INSERT INTO t VALUES" "(?,?),(?,?)".  `row` "": `insert` is of
 * one. */
int sqlite_columns_write(struct sqlite3 *db, const char *insert, const char *row, const char *kinds,
                         const void *const *data, size_t n_rows);

/* --- database.c ---------------------------------------------------------------------------------- */

PyObject *open_database(PyObject *self, PyObject *const *args, Py_ssize_t n_args);
PyObject *read_columns(PyObject *self, PyObject *const *args, Py_ssize_t n_args);
PyObject *write_columns(PyObject *self, PyObject *const *args, Py_ssize_t n_args);
PyObject *trim_memory(PyObject *self, PyObject *const *args, Py_ssize_t n_args);

/* --- shared_rows.c ------------------------------------------------------------------------------- */

PyObject *shared_rows(PyObject *self, PyObject *const *args, Py_ssize_t n_args);
PyObject *share_rows(PyObject *self, PyObject *const *args, Py_ssize_t n_args);
PyObject *shared_columns(PyObject *self, PyObject *const *args, Py_ssize_t n_args);

/* --- constants.c --------------------------------------------------------------------------------- */

/* Adds numbers by their names, SPOOL_TYPES (of the records, by name) and SPOOL_STRUCTS (formats of the module `struct`,
 * by name: little endian, without the fields that are padding).  -1 with an exception set. */
int constants_add(PyObject *module);

#endif
