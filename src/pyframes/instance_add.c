#include "instance_table.h"

#include <stddef.h>
#include <string.h>

#include "map.h"

#define FIRST_SLOTS 256

static bool grow(void)
{
    struct instance_table *old = instance_table;
    uint32_t n = old ? 2 * (old->mask + 1) : FIRST_SLOTS;
    struct instance_table *larger = map_memory(sizeof *larger + n * sizeof *larger->slot);
    if (!larger)
        return false;
    larger->mask = n - 1;
    for (uint32_t i = 0; old && i <= old->mask; i++) {
        if (!old->slot[i].word)
            continue;
        memcpy(instance_slot(larger, old->slot[i].object), &old->slot[i], sizeof *old->slot);
        larger->n_used++;
    }
    atomic_store(&instance_table, larger);
    return true;
}

struct instance *instance_add(uint64_t address)
{
    struct instance_table *t = instance_table;
    if ((!t || t->n_used >= t->mask / 4 * 3) && !grow())
        return NULL;
    t = instance_table;
    struct instance *i = instance_slot(t, address);
    if (!i->object) {
        atomic_store_explicit(&i->object, address, memory_order_release);
        t->n_used++;
    }
    return i;
}

struct instance *instance_at(uint32_t i)
{
    struct instance_table *t = instance_table;
    return t && i <= t->mask ? &t->slot[i] : NULL;
}
