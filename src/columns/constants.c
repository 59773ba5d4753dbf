/* constants.c - what Python must know of the spool and of a frame's word, from the headers that declare it.
 *
 * Context: the module's initialisation, with the GIL.
 */
#include "passes.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "frame.h"
#include "kept_calls.h"
#include "backward_work.h"
#include "backward_sums.h"
#include "spool.h"
#include "watched_calls.h"

struct number {
    const char *name;
    unsigned long long value;
};

static const struct number numbers[] = {
    /* frame.h: words are compared with these limits */
    {"NATIVE_LIMIT", PYH_TAG_PYTHON << PYH_TAG_SHIFT}, /* words below are native */
    {"PSEUDO_LIMIT", PYH_TAG_PSEUDO << PYH_TAG_SHIFT}, /* from here on: pseudo-frames */
    {"REGION_LIMIT", PYH_TAG_REGION << PYH_TAG_SHIFT},
    {"C_CALL_LIMIT", PYH_TAG_C_CALL << PYH_TAG_SHIFT},
    {"LINE_LIMIT", PYH_TAG_LINE << PYH_TAG_SHIFT},
    {"KERNEL_LIMIT", PYH_TAG_KERNEL << PYH_TAG_SHIFT},
    {"REGION_OBJECT", PYH_REGION_OBJECT},
    {"REGION_CAUSE", PYH_REGION_CAUSE},
    {"ADDRESS_BITS", PYH_ADDR_BITS},
    {"ADDRESS_MASK", PYH_ADDR_MASK},
    {"OFFSET_BITS", PYH_OFFSET_BITS},
    {"OFFSET_MASK", PYH_OFFSET_MASK},
    {"OFFSET_UNKNOWN", PYH_OFFSET_UNKNOWN},
    {"PSEUDO_TRUNCATED", PSEUDO_TRUNCATED},
    {"PSEUDO_UNKNOWN_PYTHON", PSEUDO_UNKNOWN_PYTHON},
    {"PSEUDO_TREE_FULL", PSEUDO_TREE_FULL},
    {"PSEUDO_IMPORT_FUNCTIONS", PSEUDO_IMPORT_FUNCTIONS},
    {"CALLED_STAYS", CALLED_STAYS},
    {"CALLED_FOLDED", CALLED_FOLDED},
    /* spool.h */
    {"SPOOL_VERSION", SPOOL_VERSION},
    {"SPOOL_MARK", SPOOL_MARK},
    {"SPOOL_REPLACED", SPOOL_REPLACED},
    {"SPOOL_LOSSES", SPOOL_LOSSES},
    {"STACK_MASK", SPOOL_STACK_MAX},
    {"GIL_SHIFT", SPOOL_GIL_SHIFT},
    {"WAITS", SPOOL_WAITS},
    {"NAME_COMM", NAME_COMM},
    {"NAME_THREADING", NAME_THREADING},
    {"ATTRIBUTE_NONE", ATTRIBUTE_NONE},
    {"ATTRIBUTE_FALSE", ATTRIBUTE_FALSE},
    {"ATTRIBUTE_TRUE", ATTRIBUTE_TRUE},
    {"ATTRIBUTE_INT", ATTRIBUTE_INT},
    {"ATTRIBUTE_FLOAT", ATTRIBUTE_FLOAT},
    {"ATTRIBUTE_OTHER", ATTRIBUTE_OTHER},
    /* kept_calls.h */
    {"CALL_ENDED", CALL_ENDED},
    {"CALL_RAISED", CALL_RAISED},
    {"WATCHED_COLLECTION", WATCHED_COLLECTION},
    {"WATCHED_FREED", WATCHED_FREED},
    {"WATCHED_MADE_NONE", WATCHED_MADE_NONE},
    {"CALL_PARTIAL", CALL_PARTIAL},
    {"CALL_FIRST", CALL_FIRST},
    {"CALLS_BUCKETS", CALLS_BUCKETS},
    {"CALLS_FIRST", CALLS_FIRST},
    {"CALLS_OCTAVE", CALLS_OCTAVE},
};

#define TYPE(name) {#name, SPOOL_##name}

static const struct number types[] = {
    TYPE(META),
    TYPE(MODULE),
    TYPE(MODULE_END),
    TYPE(CODE),
    TYPE(THREAD),
    TYPE(THREAD_NAME),
    TYPE(STACKS),
    TYPE(FUNCTIONS),
    TYPE(SAMPLES),
    TYPE(COUNTERS),
    TYPE(END),
    TYPE(EXACT_THREAD),
    TYPE(EXACT_NODES),
    TYPE(EXACT_COUNTERS),
    TYPE(CLOCK),
    TYPE(REGION),
    TYPE(EVENTS),
    TYPE(CALLS),
    TYPE(CALL_TIMES),
    TYPE(C_FUNCTION),
    TYPE(FUNCTION_NAME),
    TYPE(CODE_FACTS),
    TYPE(SAMPLE_SEGMENT),
    TYPE(SUMS),
    TYPE(MERGED),
    TYPE(WATCHED),
    TYPE(BACKWARD),
    TYPE(BACKWARD_NAME),
    TYPE(BACKWARD_TURNS),
    TYPE(THREAD_HANDLE),
    TYPE(CLOCK_PAIR),
    TYPE(DEVICE_WORK),
    TYPE(FOLDED),
    TYPE(FOLDED_NODES),
};

#define FIELDS_MAX 10

struct field {
    size_t at, size;
    char kind; /* as `struct` names it; 0: there are no more */
};

struct layout {
    const char *name;
    size_t size;
    struct field fields[FIELDS_MAX + 1];
};

/* Of an array it is the elements' kind. */
#define KIND(member)                                                                               \
    _Generic(member,                                                                               \
        char *: 's',                                                                               \
        uint16_t: 'H',                                                                             \
        uint32_t: 'I',                                                                             \
        int64_t: 'q',                                                                              \
        uint64_t: 'Q',                                                                             \
        uint32_t *: 'I',                                                                           \
        uint64_t *: 'Q')
#define FIELD(s, f) {offsetof(s, f), sizeof(((s *)0)->f), KIND(((s *)0)->f)},
#define FIELDS_1(s, f) FIELD(s, f)
#define FIELDS_2(s, f, ...) FIELD(s, f) FIELDS_1(s, __VA_ARGS__)
#define FIELDS_3(s, f, ...) FIELD(s, f) FIELDS_2(s, __VA_ARGS__)
#define FIELDS_4(s, f, ...) FIELD(s, f) FIELDS_3(s, __VA_ARGS__)
#define FIELDS_5(s, f, ...) FIELD(s, f) FIELDS_4(s, __VA_ARGS__)
#define FIELDS_6(s, f, ...) FIELD(s, f) FIELDS_5(s, __VA_ARGS__)
#define FIELDS_7(s, f, ...) FIELD(s, f) FIELDS_6(s, __VA_ARGS__)
#define FIELDS_8(s, f, ...) FIELD(s, f) FIELDS_7(s, __VA_ARGS__)
#define FIELDS_9(s, f, ...) FIELD(s, f) FIELDS_8(s, __VA_ARGS__)
#define FIELDS_10(s, f, ...) FIELD(s, f) FIELDS_9(s, __VA_ARGS__)
#define TENTH(a, b, c, d, e, f, g, h, i, j, n, ...) n
#define FIELDS_N(...) TENTH(__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
#define JOIN(a, b) a##b
#define FIELDS_OF(n, s, ...) JOIN(FIELDS_, n)(s, __VA_ARGS__)
/* Its fields but those that are padding. */
#define STRUCT(s, ...)                                                                             \
    {                                                                                              \
        #s, sizeof(struct s),                                                                      \
        {                                                                                          \
            FIELDS_OF(FIELDS_N(__VA_ARGS__), struct s, __VA_ARGS__)                                \
        }                                                                                          \
    }

static const struct layout layouts[] = {
    STRUCT(spool_header, magic, version, pid, committed),
    STRUCT(spool_record, mark, check, type, length),
    STRUCT(spool_half, length, check, round),
    STRUCT(spool_module, id, n_segments, base, load_ns, build_id_length, path_length),
    STRUCT(spool_segment, start, size, file_offset, flags),
    STRUCT(spool_module_end, id, unload_ns),
    STRUCT(spool_code, index, first_line, first_traceable, qualname_length, file_name_length,
           line_table_length),
    STRUCT(spool_code_facts, first_line, stack_size, n_arguments, length),
    STRUCT(spool_thread, index, tid, start_ns, first_seen_ns, comm),
    STRUCT(spool_thread_name, index, source),
    STRUCT(spool_folded, index, n_threads),
    STRUCT(spool_folded_nodes, thread, index, n),
    STRUCT(spool_stacks, first_id, n),
    STRUCT(spool_samples, thread, n, n_weights, n_cpus, first_ns),
    STRUCT(spool_segment_head, number),
    STRUCT(spool_sums, n),
    STRUCT(spool_sum, thread, place, n, weight, first_ns, last_ns),
    STRUCT(spool_merged, before),
    STRUCT(spool_counters, thread, n_losses, signals, recorded, recorded_weight, missed_weight,
           cpu_ns, lost, lost_weight, handler_ns),
    STRUCT(spool_end, time_ns, process_cpu_ns, n_forked, n_spawned, n_kernel_lost, n_mute,
           unaccounted_ns),
    STRUCT(spool_exact_thread, index, thread),
    STRUCT(spool_exact_nodes, thread, first_id, n),
    STRUCT(spool_exact_counters, thread, first_id, n),
    STRUCT(spool_exact_count, raised, seeded, calls, resumes, total_ticks, since_ticks),
    STRUCT(spool_clock, first_ticks, first_ns, ticks, time_ns),
    STRUCT(spool_region, number),
    STRUCT(spool_backward, n),
    STRUCT(backward_sum, thread, node, name, calls, ticks),
    STRUCT(spool_backward_name, number),
    STRUCT(backward_turn, since, until, thread, node, tid, handle),
    STRUCT(spool_thread_handle, index, handle),
    STRUCT(spool_clock_pair, ticks, realtime_ns),
    STRUCT(spool_device_work, text_length),
    STRUCT(spool_events, thread, n, first_ticks, last_ticks, n_dropped),
    STRUCT(spool_calls, thread),
    STRUCT(call_turn, since, until, node, serial, flags, weight_bits, more),
    STRUCT(watched_call, since, until, cpu_since_ns, cpu_until_ns, node, how, resident_bytes),
    STRUCT(spool_call_times, thread, node, n, sum, max, n_lost),
    STRUCT(spool_attribute, kind, key_length, value_length),
    STRUCT(spool_c_function, address),
    STRUCT(spool_function_name, start),
};

static size_t size_of(char kind)
{
    return kind == 's' ? 1 : kind == 'H' ? 2 : kind == 'I' ? 4 : 8;
}

/* Adds `n` of a kind to the format; returns its length then. */
static size_t add_to(char *text, size_t length, size_t n, char kind)
{
    return n ? length + (size_t)sprintf(text + length, "%zu%c", n, kind) : length;
}

static PyObject *format_of(const struct layout *l)
{
    char text[32 * (FIELDS_MAX + 2)] = "<";
    size_t length = 1, at = 0;
    for (const struct field *f = l->fields; f->kind; at = f->at + f->size, f++) {
        length = add_to(text, length, f->at - at, 'x');
        length = add_to(text, length, f->size / size_of(f->kind), f->kind);
    }
    add_to(text, length, l->size - at, 'x');
    return PyUnicode_FromString(text);
}

static int put(PyObject *dict, const char *name, PyObject *value)
{
    int error = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return error;
}

static int add_tables(PyObject *module, PyObject *of_types, PyObject *of_structs)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (put(of_types, types[i].name, PyLong_FromUnsignedLongLong(types[i].value)))
            return -1;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (put(of_structs, layouts[i].name, format_of(&layouts[i])))
            return -1;
    return PyModule_AddObjectRef(module, "SPOOL_TYPES", of_types) ||
                   PyModule_AddObjectRef(module, "SPOOL_STRUCTS", of_structs)
               ? -1
               : 0;
}

int constants_add(PyObject *module)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(numbers[i].value);
        int error = PyModule_AddObjectRef(module, numbers[i].name, value);
        Py_XDECREF(value);
        if (error)
            return -1;
    }
    PyObject *of_types = PyDict_New(), *of_structs = of_types ? PyDict_New() : NULL;
    int error = of_structs ? add_tables(module, of_types, of_structs) : -1;
    Py_XDECREF(of_types);
    Py_XDECREF(of_structs);
    return error || PyModule_AddStringConstant(module, "SPOOL_MAGIC", SPOOL_MAGIC) ? -1 : 0;
}
