/* shared_rows.c - the trees of several profiles as one: a row that is in many of them is there once.
 *
 * A row is its parent, a label (uint32), and some more numbers of 64 bits, as many as the table has.  Trees are added
 * one after the other, and each learns which rows its own are.  Two rows of one tree never become one, even if they are
 * equal: the second of them is the second of another tree, too.  Row 0 is the root; parents come before their rows.
 *
 * Context: any thread of the finishing process or of a reader, one at a time for a table; rows_* without the GIL, the
 * functions of _columns with it.  rows_* return 0, -ENOMEM, or -EINVAL where a tree is none or there are too many rows.
 */
#include "passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MORE = 4, FIRST_ROOM = 64 };

/* What is known of a row besides its numbers.  `tree` and `taken` are of the first of some that are equal: which tree
 * took one of them last, and which one that was. */
struct shared_row {
    uint32_t next; /* that is equal, or 0 */
    uint32_t tree, taken;
};

struct shared_rows {
    size_t width; /* words of a row: parent << 32 | label, and the others */
    size_t n, room;
    uint64_t *words;
    struct shared_row *rows;
    uint32_t *slots; /* by hash, the first of some that are equal, or 0 */
    size_t mask;
    uint32_t n_trees;
};

static uint64_t hash_of(const uint64_t *words, size_t width)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < width; i++) {
        hash = (hash ^ words[i] ^ words[i] >> 32) * 0x9e3779b97f4a7c15ull; /* as columns.c has it */
        hash ^= hash >> 29;
    }
    return hash;
}

static uint32_t *slot_of(const struct shared_rows *t, const uint64_t *words)
{
    size_t at = hash_of(words, t->width) & t->mask, size = t->width * sizeof *words;
    while (t->slots[at] && memcmp(t->words + t->slots[at] * t->width, words, size) != 0)
        at = (at + 1) & t->mask;
    return &t->slots[at];
}

static int larger(void *memory, size_t n, size_t size)
{
    void **at = memory, *moved = realloc(*at, n * size);
    if (moved)
        *at = moved;
    return moved ? 0 : -ENOMEM;
}

/* Makes room for twice as many rows; the slots are at least half empty. */
static int rows_grow(struct shared_rows *t)
{
    size_t room = t->room ? 2 * t->room : FIRST_ROOM;
    if (room > UINT32_MAX)
        return -EINVAL;
    uint32_t *slots = calloc(2 * room, sizeof *slots);
    if (!slots || larger(&t->words, room, t->width * sizeof *t->words) ||
        larger(&t->rows, room, sizeof *t->rows)) {
        free(slots);
        return -ENOMEM;
    }
    uint32_t *old = t->slots;
    size_t n_old = old ? t->mask + 1 : 0;
    t->slots = slots;
    t->mask = 2 * room - 1;
    t->room = room;
    for (size_t i = 0; i < n_old; i++)
        if (old[i])
            *slot_of(t, t->words + old[i] * t->width) = old[i];
    free(old);
    return 0;
}

static int row_add(struct shared_rows *t, const uint64_t *words, uint32_t *row)
{
    *row = (uint32_t)t->n++;
    t->rows[*row] = (struct shared_row){0};
    memcpy(t->words + *row * t->width, words, t->width * sizeof *words);
    return t->n < t->room ? 0 : rows_grow(t);
}

/* The row of the tree that is added now. */
static int row_take(struct shared_rows *t, const uint64_t *words, uint32_t *row)
{
    uint32_t *slot = slot_of(t, words), first = *slot;
    if (first && t->rows[first].tree != t->n_trees) {
        *row = first;
    } else if (first && t->rows[t->rows[first].taken].next) {
        *row = t->rows[t->rows[first].taken].next;
    } else {
        uint32_t before = first ? t->rows[first].taken : 0;
        if (!first)
            *slot = (uint32_t)t->n;
        int r = row_add(t, words, row); /* the slots may have moved */
        if (r)
            return r;
        if (first)
            t->rows[before].next = *row;
        else
            first = *row;
    }
    t->rows[first].tree = t->n_trees;
    t->rows[first].taken = *row;
    return 0;
}

static int rows_share(struct shared_rows *t, const uint32_t *parent, const uint32_t *label,
                      const uint64_t *const *more, size_t n, uint32_t *row)
{
    int r = t->n_trees == UINT32_MAX ? -EINVAL : 0;
    t->n_trees++;
    if (n)
        row[0] = 0;
    for (size_t i = 1; !r && i < n; i++) {
        if (parent[i] >= i)
            return -EINVAL;
        uint64_t words[1 + MOST_MORE] = {(uint64_t)row[parent[i]] << 32 | label[i]};
        for (size_t column = 1; column < t->width; column++)
            words[column] = more[column - 1][i];
        r = row_take(t, words, &row[i]);
    }
    return r;
}

/* --- as functions of Python's ---------------------------------------------------------------------- */

static const char rows_name[] = "pyhybrid._columns.rows";

static void rows_free(struct shared_rows *t)
{
    if (t) {
        free(t->words);
        free(t->rows);
        free(t->slots);
    }
    free(t);
}

static void rows_close(PyObject *capsule)
{
    rows_free(PyCapsule_GetPointer(capsule, rows_name));
}

PyObject *shared_rows(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    size_t n_more = n_args == 1 ? PyLong_AsSize_t(args[0]) : 0;
    if (n_args != 1 || n_more > MOST_MORE)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError,
                                               "shared_rows() takes a number up to %d", MOST_MORE);
    struct shared_rows *t = calloc(1, sizeof *t);
    int r = t ? 0 : -ENOMEM;
    if (t) {
        t->width = 1 + n_more;
        r = rows_grow(t);
    }
    if (!r) { /* the root, which no slot has */
        memset(t->words, 0, t->width * sizeof *t->words);
        t->rows[t->n++] = (struct shared_row){0};
    }
    PyObject *capsule = r ? NULL : PyCapsule_New(t, rows_name, rows_close);
    if (!capsule)
        rows_free(t);
    if (r)
        pass_failed(r);
    return capsule;
}

PyObject *share_rows(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    struct shared_rows *t = n_args ? PyCapsule_GetPointer(args[0], rows_name) : NULL;
    if (!t || (size_t)n_args != t->width + 2)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "share_rows() got %zd arguments", n_args);
    struct argument in[2 + MOST_MORE] = {0};
    const uint64_t *more[MOST_MORE] = {0};
    int failed = 0;
    for (size_t i = 0; !failed && i < t->width + 1; i++) {
        failed = argument_borrow(&in[i], args[i + 1], i < 2 ? 'I' : 'q');
        if (!failed && in[i].n != in[0].n)
            failed = pass_failed(-EINVAL);
        if (!failed && i >= 2)
            more[i - 2] = in[i].data;
    }
    size_t n = in[0].n;
    void *row = NULL;
    PyObject *made = failed ? NULL : column_new(n, 'I', &row);
    if (made) {
        int r;
        Py_BEGIN_ALLOW_THREADS r = rows_share(t, in[0].data, in[1].data, more, n, row);
        Py_END_ALLOW_THREADS if (pass_failed(r)) Py_CLEAR(made);
    }
    for (size_t i = 0; i < t->width + 1; i++)
        argument_release(&in[i]);
    return column_view(made, n, 'I');
}

PyObject *shared_columns(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    (void)self;
    struct shared_rows *t = n_args == 1 ? PyCapsule_GetPointer(args[0], rows_name) : NULL;
    if (!t)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "shared_columns() got %zd arguments", n_args);
    PyObject *columns = PyTuple_New((Py_ssize_t)t->width + 1);
    for (size_t i = 0; columns && i < t->width + 1; i++) {
        char kind = i < 2 ? 'I' : 'q';
        void *data;
        PyObject *bytes = column_new(t->n, kind, &data);
        for (size_t row = 0; bytes && row < t->n; row++) {
            const uint64_t *words = t->words + row * t->width;
            if (i < 2)
                ((uint32_t *)data)[row] = (uint32_t)(i ? words[0] : words[0] >> 32);
            else
                ((uint64_t *)data)[row] = words[i - 1];
        }
        PyObject *column = column_view(bytes, t->n, kind);
        if (!column || PyTuple_SetItem(columns, (Py_ssize_t)i, column))
            Py_CLEAR(columns);
    }
    return columns;
}
