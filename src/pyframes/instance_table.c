#include "instance_table.h"

#include <stddef.h>

#include "compiler.h"
#include "map.h"
#include "memread.h"
#include "pyframe_version.h"

_Atomic uint64_t instance_method;
_Atomic(struct instance_table *) instance_table;

struct instance *instance_slot(struct instance_table *t, uint64_t address)
{
    uint32_t at = (uint32_t)map_hash(address >> 4) & t->mask;
    for (;; at = (at + 1) & t->mask) {
        uint64_t there = atomic_load_explicit(&t->slot[at].object, memory_order_acquire);
        if (!there || there == address)
            return &t->slot[at];
    }
}

struct instance *instance_find(uint64_t address)
{
    struct instance_table *t = atomic_load_explicit(&instance_table, memory_order_acquire);
    struct instance *i = t ? instance_slot(t, address) : NULL;
    return i && i->object && i->word ? i : NULL;
}

uint64_t instance_word(uint64_t address)
{
    const struct instance *i = instance_find(address);
    return i ? atomic_load_explicit(&i->word, memory_order_relaxed) : 0;
}

/* The first local lies behind the frame's head, whose last page is known to be there. */
NO_ASAN uint64_t instance_word_of_frame(uint64_t frame)
{
    uint64_t at = frame + FRAME_HEAD, self;
    memread_way *read = at & 4095 ? memread_known : memread;
    if (!read(&self, at, sizeof self))
        return 0;
#if PY_VERSION_HEX >= 0x030e0000
    self &= ~3ull; /* the tag of a _PyStackRef */
#endif
    return self ? instance_word(self) : 0;
}
