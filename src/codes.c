#include "codes.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "arch_x86_64.h"

#define SLOT_BITS CODES_SLOT_BITS
#define SLOTS CODES_SLOTS
#define GENERATION_BITS CODES_GENERATION_BITS
#define GENERATION_MASK ((1ull << GENERATION_BITS) - 1)
#define PROBES 64

static uint32_t place(uint64_t address, uint32_t probe)
{
    return (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15ull >> (64 - SLOT_BITS)) + probe;
}

static uint64_t key_of(uint64_t address)
{
    return address >> 3 << GENERATION_BITS;
}

static uint64_t id_of(uint32_t slot, uint64_t value)
{
    return (value & GENERATION_MASK) << SLOT_BITS | slot;
}

struct codes *codes_new(void)
{
    long p = arch_syscall6(SYS_mmap, 0, sizeof(struct codes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p < 0 ? NULL : (struct codes *)p;
}

void codes_free(struct codes *c)
{
    if (c)
        arch_syscall6(SYS_munmap, (long)c, sizeof *c, 0, 0, 0, 0);
}

uint64_t codes_find(const struct codes *c, uint64_t address)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = place(address, i) % SLOTS;
        uint64_t value = atomic_load_explicit(&c->slot[at], memory_order_acquire);
        if (!value)
            return 0;
        if ((value & ~GENERATION_MASK) == key_of(address))
            return id_of(at, value);
    }
    return 0;
}

uint64_t codes_add(struct codes *c, uint64_t address, bool *added)
{
    *added = false;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = place(address, i) % SLOTS;
        uint64_t value = atomic_load_explicit(&c->slot[at], memory_order_acquire);
        if ((value & ~GENERATION_MASK) == key_of(address))
            return id_of(at, value);
        if (value & ~GENERATION_MASK)
            continue;
        uint64_t generation = (value + 1) & GENERATION_MASK;
        uint64_t mine = key_of(address) | (generation ? generation : 1);
        if (atomic_compare_exchange_strong(&c->slot[at], &value, mine)) {
            *added = true;
            return id_of(at, mine);
        }
        i--; /* somebody took the slot: look at it again */
    }
    return 0;
}

void codes_forget(struct codes *c, uint64_t address)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint64_t *slot = &c->slot[place(address, i) % SLOTS];
        uint64_t value = atomic_load_explicit(slot, memory_order_acquire);
        if (!value)
            return;
        if ((value & ~GENERATION_MASK) == key_of(address))
            atomic_compare_exchange_strong(slot, &value, value & GENERATION_MASK);
    }
}
