/* The LTTng-UST event `sysmon:function_stats`: calls and times of a function, once profiling has ended.  Read several times by
 * <lttng/tracepoint-event.h>, as lttng-ust(3) has it. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER sysmon
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_stats.h"

#if !defined(PYH_LTTNG_STATS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PYH_LTTNG_STATS_H

#include <lttng/tracepoint.h>

#include "function_stats.h"

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(sysmon, function_stats,
    LTTNG_UST_TP_ARGS(const struct function_stats *, s),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(filename, s->filename)
        lttng_ust_field_integer(int32_t, lineno, s->lineno)
        lttng_ust_field_string(funcname, s->funcname)
        lttng_ust_field_integer(uint64_t, calls, s->calls)
        lttng_ust_field_float(double, total_time, s->total_s)
        lttng_ust_field_float(double, avg_time, s->avg_s)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
