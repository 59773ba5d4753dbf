/* module.c - the extension module pyhybrid._columns: turns buffers into calls of columns.c, exact_rows.c, line_table.c
 * and call_rows.c.  (database.c and shared_rows.c have functions of their own.)
 *
 * Its stub, with what each function promises, is pyhybrid/_columns.pyi.  Loaded by the finishing process
 * and by readers of profiles, never by the profiled program.  Keeps to the limited API of 3.12.
 */
#include "passes.h"

#include <errno.h>
#include <string.h>

/* A function of the module: `run_NAME` is its pass. */
#define PASS(function, ...)                                                                        \
    static PyObject *function(PyObject *self, PyObject *const *args, Py_ssize_t n_args)            \
    {                                                                                              \
        (void)self;                                                                                \
        return pass_call(                                                                          \
            &(const struct pass){.name = #function, .run = run_##function, __VA_ARGS__}, args,     \
            n_args);                                                                               \
    }

static int run_pairs(const struct argument *in, struct result *out)
{
    return columns_pairs(in[0].data, in[1].data, in[0].n, out[0].data, out[1].data, &out[1].n);
}
PASS(pairs, .takes = "II", .gives = "II")

static int run_distinct(const struct argument *in, struct result *out)
{
    return columns_distinct(in[0].data, in[0].n, out[0].data, out[1].data, &out[1].n);
}
PASS(distinct, .takes = "q", .gives = "II")

static int run_shift(const struct argument *in, struct result *out)
{
    return columns_shift(in[0].data, in[0].n, in[1].number, out[0].data);
}
PASS(shift, .takes = "In", .gives = "I")

static int run_paths(const struct argument *in, struct result *out)
{
    int r = columns_paths(in[0].data, in[1].data, in[2].data, in[3].data, in[0].n, out[0].data,
                          out[1].data, out[2].data, &out[1].n);
    out[2].n = out[1].n;
    return r;
}
PASS(paths, .takes = "IIBI?", .gives = "III")

static int run_descend(const struct argument *in, struct result *out)
{
    return columns_descend(in[0].data, in[1].data, in[0].n, in[2].data, in[2].n / 256, out[0].data);
}
PASS(descend, .takes = "IBB*", .gives = "B")

static int run_take(const struct argument *in, struct result *out)
{
    return columns_take(in[0].data, in[0].size, in[0].n, in[1].data, in[1].n, out[0].data);
}
PASS(take, .takes = "x*I", .gives = "x")

static int run_order(const struct argument *in, struct result *out)
{
    return columns_order(in[0].data, in[1].data, in[0].n, out[0].data);
}
PASS(order, .takes = "II", .gives = "I")

static size_t all_rows(const struct argument *in)
{
    return in[1].number;
}

static int run_mark(const struct argument *in, struct result *out)
{
    return columns_mark(in[0].data, in[0].n, out[0].data, out[0].n);
}
PASS(mark, .takes = "In", .gives = "B", .room = all_rows)

static int run_rows_from(const struct argument *in, struct result *out)
{
    return columns_rows_from(in[0].data, in[0].size, in[0].n, in[1].number, out[0].data, &out[0].n);
}
PASS(rows_from, .takes = "xn", .gives = "I")

static int run_nearest(const struct argument *in, struct result *out)
{
    return columns_nearest(in[0].data, in[1].data, in[0].n, out[0].data);
}
PASS(nearest, .takes = "IB", .gives = "I")

static size_t climb_room(const struct argument *in)
{
    size_t room = columns_climb_room(in[0].data, in[0].n, in[2].data, in[2].n, in[3].number);
    return room > in[2].n ? room : in[2].n;
}

static int run_climb(const struct argument *in, struct result *out)
{
    int64_t *end = out[1].data;
    int r = columns_climb(in[0].data, in[1].data, in[0].n, in[2].data, in[2].n, in[3].number,
                          out[0].data, end);
    out[1].n = in[2].n;
    out[0].n = !r && in[2].n ? (size_t)end[in[2].n - 1] : 0;
    return r;
}
PASS(climb, .takes = "IqI*n", .gives = "qq", .room = climb_room)

static int run_outermost(const struct argument *in, struct result *out)
{
    return columns_outermost(in[0].data, in[1].data, in[2].data, in[0].n, out[0].data);
}
PASS(outermost, .takes = "IIB", .gives = "B")

static int run_inclusive(const struct argument *in, struct result *out)
{
    memcpy(out[0].data, in[1].data, in[1].n * sizeof(int64_t));
    return columns_inclusive(in[0].data, out[0].data, in[0].n);
}
PASS(inclusive, .takes = "Iq", .gives = "q")

static int run_at_least(const struct argument *in, struct result *out)
{
    memcpy(out[0].data, in[1].data, in[1].n * sizeof(int64_t));
    return columns_at_least(in[0].data, out[0].data, in[0].n);
}
PASS(at_least, .takes = "Iq", .gives = "q")

static size_t groups(const struct argument *in)
{
    return in[2].number;
}

static int run_add_up(const struct argument *in, struct result *out)
{
    return columns_add_up(in[0].data, in[1].data, in[3].data, in[0].n, out[0].data, out[0].n);
}
PASS(add_up, .takes = "IqnB?", .gives = "q", .room = groups)

static int run_exact_counts(const struct argument *in, struct result *out)
{
    struct spool_exact_count *into = (void *)(uintptr_t)in[0].data;
    return exact_counts_add(into, in[0].n / sizeof *into, in[1].number, in[2].data,
                            in[2].n / sizeof *into, &out[0].n);
}
PASS(exact_counts, .takes = "B*nB*", .gives = "n")

static int run_rows_follow(const struct argument *in, struct result *out)
{
    out[0].n = (size_t)exact_rows_follow(in[0].data, in[1].data, in[0].n, in[2].number);
    return 0;
}
PASS(rows_follow, .takes = "Iqn", .gives = "n")

static int run_exact_rows(const struct argument *in, struct result *out)
{
    struct exact_tree tree = {.parent = in[0].data,
                              .node = in[1].data,
                              .kept = in[2].data,
                              .count = in[3].data,
                              .n = in[0].n};
    struct exact_clock clock = {.multiply = in[4].number,
                                .divide = in[5].number,
                                .last_ticks = in[6].number,
                                .killed = in[7].number != 0};
    if (in[3].n != in[0].n * sizeof *tree.count)
        return -EINVAL;
    struct exact_row_columns rows = {out[0].data, out[1].data, out[2].data, out[3].data,
                                     out[4].data, out[5].data, out[6].data};
    size_t n = 0;
    int r = exact_rows_of(&tree, &clock, &rows, &n);
    for (size_t i = 0; i < 7; i++)
        out[i].n = n;
    return r;
}
PASS(exact_rows, .takes = "IIBB*nnnn", .gives = "Iqqqqqq")

static int run_fold_counts(const struct argument *in, struct result *out)
{
    struct exact_tree tree = {
        .parent = in[0].data, .kept = in[2].data, .count = in[3].data, .n = in[0].n};
    struct folded_counts to = {out[0].data, out[1].data, out[2].data, out[3].data,
                               out[4].data, out[5].data, out[6].data, out[7].data,
                               out[8].data, 0,           0,           0};
    if (!tree.n || in[3].n != tree.n * sizeof *tree.count)
        return -EINVAL;
    int r = exact_rows_fold(&tree, in[1].data, in[4].number, &to);
    out[0].n = to.n_rows;
    for (size_t i = 2; i < 8; i++)
        out[i].n = to.n;
    out[8].n = to.n_numbers;
    return r;
}
PASS(fold_counts, .takes = "IIBB*n", .gives = "IIIqqqqqB")

static int run_line_runs(const struct argument *in, struct result *out)
{
    out[2].n = line_table_runs(in[0].data, in[0].n, (int64_t)in[1].number, out[0].data, out[1].data,
                               &out[0].n);
    out[1].n = out[0].n;
    return 0;
}
PASS(line_runs, .takes = "Bn", .gives = "Iqn")

static size_t turns_room(const struct argument *in)
{
    return CALL_ROWS_ROOM(in[0].n);
}

static int run_call_rows(const struct argument *in, struct result *out)
{
    struct call_clock clock = {.multiply = in[2].number,
                               .divide = in[3].number,
                               .ticks = in[4].number,
                               .ns = in[5].number};
    struct call_columns columns = {.row = out[0].data,
                                   .serial = out[1].data,
                                   .node = out[2].data,
                                   .info = out[3].data,
                                   .around = out[4].data,
                                   .begin_ns = out[5].data,
                                   .end_ns = out[6].data};
    struct call_attributes attributes = {out[8].data, out[9].data, out[10].data, 0};
    struct usage_places usage = {out[12].data, out[13].data, 0};
    int r = call_rows_of(in[0].data, in[0].n, in[1].data, in[1].n, &clock, &columns, &attributes,
                         &usage, &out[11].n);
    out[12].n = out[13].n = usage.n;
    for (size_t i = 0; i < 7; i++)
        out[i].n = columns.n;
    out[7].n = columns.n_whole;
    for (size_t i = 8; i < 11; i++)
        out[i].n = attributes.n;
    return r;
}
PASS(call_rows, .takes = "B*I*nnnn", .gives = "IIIIIqqnIIInII", .room = turns_room)

static size_t places_room(const struct argument *in)
{
    return in[1].n;
}

static int run_call_usage(const struct argument *in, struct result *out)
{
    const struct usage_columns columns = {out[0].data, out[1].data, out[2].data,  out[3].data,
                                          out[4].data, out[5].data, out[6].data,  out[7].data,
                                          out[8].data, out[9].data, out[10].data, out[11].data};
    return call_usage_of(in[0].data, in[0].n, in[1].data, in[1].n, &columns);
}
PASS(call_usage, .takes = "B*I*", .gives = "qqqqqqqqqqqq", .room = places_room)

static int run_relocate(const struct argument *in, struct result *out)
{
    struct module_spans spans = {.begin = in[2].data,
                                 .end = in[3].data,
                                 .module = in[4].data,
                                 .n = in[2].n,
                                 .path = in[5].data,
                                 .by = in[6].data,
                                 .n_modules = in[5].n};
    if (in[3].n != spans.n || in[4].n != spans.n || in[6].n != spans.n_modules)
        return -EINVAL;
    return columns_relocate(in[0].data, in[1].data, in[0].n, &spans, out[0].data);
}
PASS(relocate, .takes = "qIq*q*I*I*q*", .gives = "q")

static int run_restack(const struct argument *in, struct result *out)
{
    return columns_restack(in[0].data, in[0].n, in[1].data, in[1].n, out[0].data);
}
PASS(restack, .takes = "II*", .gives = "I")

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef functions[] = {
    FUNCTION(paths),         FUNCTION(descend),       FUNCTION(pairs),
    FUNCTION(distinct),      FUNCTION(shift),         FUNCTION(take),
    FUNCTION(nearest),       FUNCTION(outermost),     FUNCTION(mark),
    FUNCTION(inclusive),     FUNCTION(add_up),        FUNCTION(exact_rows),
    FUNCTION(exact_counts),  FUNCTION(open_database), FUNCTION(read_columns),
    FUNCTION(write_columns), FUNCTION(at_least),      FUNCTION(call_rows),
    FUNCTION(call_usage),    FUNCTION(rows_from),     FUNCTION(line_runs),
    FUNCTION(order),         FUNCTION(climb),         FUNCTION(fold_counts),
    FUNCTION(rows_follow),   FUNCTION(relocate),      FUNCTION(restack),
    FUNCTION(shared_rows),   FUNCTION(share_rows),    FUNCTION(shared_columns),
    FUNCTION(trim_memory),   {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "ROWS_AT_ONCE", SQLITE_ROWS_AT_ONCE) ||
                   PyModule_AddIntConstant(module, "NO_NUMBER", NO_NUMBER)
               ? -1
               : constants_add(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)add_constants},
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_columns",
                                        .m_doc = "Passes over the columns of a call tree.",
                                        .m_methods = functions, .m_slots = slots};

PyMODINIT_FUNC PyInit__columns(void);
PyMODINIT_FUNC PyInit__columns(void)
{
    return PyModuleDef_Init(&definition);
}
