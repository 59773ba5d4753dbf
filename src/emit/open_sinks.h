/* open_sinks.h - the sinks that are open, for the files that call them.  Private to src/emit/.
 *
 * Context: with the GIL they are as they were; only what is wanted changes at any moment.
 */
#ifndef PYH_OPEN_SINKS_H
#define PYH_OPEN_SINKS_H

#include <Python.h>

#include <stdatomic.h>

#include "emit.h"

struct open_sinks {
    struct {
        const struct emit_sink *ops;
        _Atomic uint32_t wanted;
    } sink[EMIT_SINKS];
    _Atomic uint32_t n;
    _Atomic uint32_t texts; /* the kinds whose text is wanted */
    _Atomic bool of_kept;   /* no sink wants functions whose calls are not kept */
    enum emit_values values;
};

extern struct open_sinks open_sinks;

/* They forget the names, and the event that was under way. */
void emit_forget_names(void);
void emit_forget_event(void);

/* Writes what sinks have.  Returns false if not all of it was written, after a moment or (!may_wait) at once.  Call it
 * without the GIL. */
bool emit_flush(bool may_wait);

#endif
