/* The LTTng-UST events `pyhybrid:*`: turns of Python functions, regions.  Fields are names, so that events need no table to be
 * read.  Read several times by <lttng/tracepoint-event.h>, as lttng-ust(3) has it. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER pyhybrid
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_turns.h"

#if !defined(PYH_LTTNG_TURNS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PYH_LTTNG_TURNS_H

#include <lttng/tracepoint.h>

#include "sink.h"

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT_CLASS(pyhybrid, turn,
    LTTNG_UST_TP_ARGS(const struct emit_function *, f),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(qualname, f->names.qualname)
        lttng_ust_field_string(filename, f->names.file)
        lttng_ust_field_integer(uint32_t, lineno, f->line)))

#define PYH_TURN(name) \
    LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(pyhybrid, turn, pyhybrid, name, \
        LTTNG_UST_TP_ARGS(const struct emit_function *, f))
PYH_TURN(py_start)
PYH_TURN(py_resume)
PYH_TURN(py_throw)
PYH_TURN(py_running)
PYH_TURN(py_return)
PYH_TURN(py_yield)
PYH_TURN(py_unwind)
PYH_TURN(py_cut_off)

LTTNG_UST_TRACEPOINT_EVENT_CLASS(pyhybrid, region,
    LTTNG_UST_TP_ARGS(const struct emit_function *, f),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(name, f->names.name)))

#define PYH_REGION(name) \
    LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(pyhybrid, region, pyhybrid, name, \
        LTTNG_UST_TP_ARGS(const struct emit_function *, f))
PYH_REGION(region_begin)
PYH_REGION(region_end)
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
