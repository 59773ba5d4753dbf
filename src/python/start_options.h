/* start_options.h - the arguments of _native.start: what a run collects.
 *
 * Context: with the GIL.
 */
#ifndef PYH_START_OPTIONS_H
#define PYH_START_OPTIONS_H

#include <Python.h>

#include "sampler.h"

struct start_options {
    struct sampler_options sampler;
    int lines, c_calls; /* of the exact half: counted and timed, too */
    int counts;         /* 0: its events are for sinks alone, and come while one wants them */
    int paused;         /* until resume() */
    PyObject *filter, *keep, *lines_of, *arguments_of, *usage_of; /* borrowed; NULL: none */
    uint32_t max_calls; /* so many are kept all (kept_calls.h) */
    uint32_t usage;     /* enum usage_kinds: what is told of them */
    PyObject *
        own; /* borrowed; what the files of functions begin with that are not recorded; NULL: none */
};

/* From start's arguments.  What they refer to is theirs.  0, or -1 with an exception set. */
int start_options_parse(struct start_options *o, PyObject *args, PyObject *keywords);

#endif
