/* The tool of PerfStubs: an application's own timers are regions, its counters and metadata are those of pyhybrid.h.
 *
 * PerfStubs is a part of libraries (ADIOS2, PETSc), which look for these functions among all symbols once, at their
 * first timer, and call them for the process's life.  Each copy of it has handles of its own, and prints to standard
 * output that it has found them.  Handles that were made before are addresses that mean nothing here: they are one
 * timer, [unnamed timer].
 *
 * Source: perfstubs_api/tool.h.
 */
#include <stdint.h>
#include <stdio.h>

#include "exports.h"
#include "listener.h"

VISIBLE void ps_tool_initialize(void);
VISIBLE void ps_tool_finalize(void);
VISIBLE void ps_tool_register_thread(void);
VISIBLE void ps_tool_dump_data(void);
VISIBLE void *ps_tool_timer_create(const char *name);
VISIBLE void ps_tool_timer_start(void *timer);
VISIBLE void ps_tool_timer_stop(void *timer);
VISIBLE void ps_tool_start_string(const char *name);
VISIBLE void ps_tool_stop_string(const char *name);
VISIBLE void ps_tool_stop_current(void);
VISIBLE void ps_tool_dynamic_phase_start(const char *name, int index);
VISIBLE void ps_tool_dynamic_phase_stop(const char *name, int index);
VISIBLE void *ps_tool_create_counter(const char *name);
VISIBLE void ps_tool_sample_counter(void *counter, double value);
VISIBLE void ps_tool_set_metadata(const char *name, const char *value);
VISIBLE void ps_tool_set_parameter(const char *name, int64_t value);

/* They come once for each copy, the last one perhaps when Python is gone. */
void ps_tool_initialize(void)
{
}

void ps_tool_finalize(void)
{
}

void ps_tool_register_thread(void)
{
}

void ps_tool_dump_data(void)
{
}

void *ps_tool_timer_create(const char *name)
{
    return (void *)pyhybrid_region_named(name);
}

static const pyhybrid_region *region_of(const void *timer)
{
    static const pyhybrid_region *_Atomic unnamed;
    if (pyhybrid_region_is(timer))
        return timer;
    if (!unnamed)
        unnamed = pyhybrid_region_named("[unnamed timer]");
    return unnamed;
}

void ps_tool_timer_start(void *timer)
{
    pyhybrid_region_push(region_of(timer));
}

void ps_tool_timer_stop(void *timer)
{
    pyhybrid_region_pop(region_of(timer));
}

void ps_tool_start_string(const char *name)
{
    pyhybrid_region_push(pyhybrid_region_named(name));
}

void ps_tool_stop_string(const char *name)
{
    pyhybrid_region_pop(pyhybrid_region_named(name));
}

void ps_tool_stop_current(void)
{
    pyhybrid_region_pop(NULL);
}

static const pyhybrid_region *phase(const char *name, int index)
{
    char text[512];
    snprintf(text, sizeof text, "%s [%d]", name, index);
    return pyhybrid_region_named(text);
}

void ps_tool_dynamic_phase_start(const char *name, int index)
{
    pyhybrid_region_push(phase(name, index));
}

void ps_tool_dynamic_phase_stop(const char *name, int index)
{
    pyhybrid_region_pop(phase(name, index));
}

void *ps_tool_create_counter(const char *name)
{
    return (void *)pyhybrid_counter_named(name);
}

void ps_tool_sample_counter(void *counter, double value)
{
    pyhybrid_counter_sample(counter, value);
}

void ps_tool_set_metadata(const char *name, const char *value)
{
    pyhybrid_metadata_set(name, value);
}

void ps_tool_set_parameter(const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    pyhybrid_metadata_set(name, text);
}
