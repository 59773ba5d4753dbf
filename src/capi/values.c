#include "values.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "exports.h"
#include "names.h"
#include "pyhybrid.h"

#define COUNTERS_MAX 4096u /* number 0 takes what does not fit */
#define METADATA_MAX 4096u

struct pyhybrid_counter {
    _Atomic int locked;
    uint32_t session;
    struct pyhybrid_counted counted;
};

NAMES(counter_names, COUNTERS_MAX);
static struct pyhybrid_counter counters[COUNTERS_MAX];
NAMES(metadata_names, METADATA_MAX);
static const char *_Atomic metadata[METADATA_MAX];

static void lock(struct pyhybrid_counter *c)
{
    while (atomic_exchange_explicit(&c->locked, 1, memory_order_acquire))
        sched_yield();
}

static void unlock(struct pyhybrid_counter *c)
{
    atomic_store_explicit(&c->locked, 0, memory_order_release);
}

EXPORTED const pyhybrid_counter *pyhybrid_counter_named(const char *name)
{
    return name ? &counters[names_number(&counter_names, name)] : NULL;
}

EXPORTED void pyhybrid_counter_sample(const pyhybrid_counter *counter, double value)
{
    size_t offset = (size_t)counter - (size_t)counters;
    uint32_t session = values_session();
    if (!session || offset >= sizeof counters || offset % sizeof *counter)
        return;
    struct pyhybrid_counter *c = &counters[offset / sizeof *counter];
    lock(c);
    struct pyhybrid_counted *t = &c->counted;
    if (c->session != session)
        *t = (struct pyhybrid_counted){.min = value, .max = value};
    c->session = session;
    t->n++;
    t->sum += value;
    t->min = value < t->min ? value : t->min;
    t->max = value > t->max ? value : t->max;
    t->sum_of_squares += value * value;
    unlock(c);
}

/* What was there before stays: a reader may be copying it. */
EXPORTED void pyhybrid_metadata_set(const char *name, const char *value)
{
    uint32_t number = name && value ? names_number(&metadata_names, name) : 0;
    const char *before = number ? atomic_load(&metadata[number]) : NULL;
    if (number && !(before && !strcmp(before, value)))
        atomic_store(&metadata[number], strdup(value));
}

void values_read(uint32_t session, const struct pyhybrid_values *to)
{
    for (uint32_t i = 0; i < COUNTERS_MAX; i++) {
        struct pyhybrid_counter *c = &counters[i];
        lock(c);
        struct pyhybrid_counted copy = c->counted;
        bool is_ours = c->session == session;
        unlock(c);
        copy.name = i ? atomic_load(&counter_names.text[i]) : "[other]";
        if (is_ours && copy.name)
            to->counter(to->arg, &copy);
    }
    for (uint32_t i = 1; i < METADATA_MAX; i++) {
        const char *name = atomic_load(&metadata_names.text[i]), *value = atomic_load(&metadata[i]);
        if (name && value)
            to->metadata(to->arg, name, value);
    }
}
