/* function_stats.h - the door to the event `sysmon:function_stats`, for the module pylttng.
 *
 * libpyhybrid_lttng.so is the only object that defines LTTng events: with a second one every event would be recorded twice.  So
 * pylttng loads it, and calls what it exports under these names.
 *
 * Context: any thread.
 */
#ifndef PYH_FUNCTION_STATS_H
#define PYH_FUNCTION_STATS_H

#include <stdbool.h>
#include <stdint.h>

struct function_stats {
    const char *filename, *funcname; /* UTF-8 */
    int32_t lineno;
    uint64_t calls;
    double total_s, avg_s;
};

#define FUNCTION_STATS_EMIT "pyhybrid_function_stats_emit"
typedef void function_stats_emit_t(const struct function_stats *s);

#define FUNCTION_STATS_IS_RECORDED                                                                 \
    "pyhybrid_function_stats_is_recorded" /* by some session, just now? */
typedef bool function_stats_is_recorded_t(void);

#endif
