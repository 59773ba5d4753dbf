/* values.h - counters and metadata of instrumented code, as _native reads them at a session's end.
 *
 * Context: any thread, several at once.
 */
#ifndef PYH_CAPI_VALUES_H
#define PYH_CAPI_VALUES_H

#include <stdint.h>

struct pyhybrid_counted {
    const char *name;
    uint64_t n;
    double sum, min, max, sum_of_squares;
};

/* The functions that take the values; either is called for each. */
struct pyhybrid_values {
    void (*counter)(void *arg, const struct pyhybrid_counted *counted);
    void (*metadata)(void *arg, const char *name, const char *value);
    void *arg;
};

/* Gives the counters of the session, and all metadata. */
typedef void pyhybrid_values_call(uint32_t session, const struct pyhybrid_values *to);

pyhybrid_values_call values_read;

/* Returns the session that runs; 0: none. */
uint32_t values_session(void);

#endif
