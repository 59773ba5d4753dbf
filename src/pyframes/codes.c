#include "codes.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "arch_x86_64.h"
#include "records.h"

#define SLOT_BITS CODES_SLOT_BITS
#define SLOTS CODES_SLOTS
#define GENERATION_BITS CODES_GENERATION_BITS
#define GENERATION_MASK ((1ull << GENERATION_BITS) - 1)
#define PROBES 64

/* The place of a probe for `hash`, of which 32 bits count, in a table of `n`: first in its lower half. */
static uint32_t place_in(uint32_t n, uint64_t hash, uint32_t probe)
{
    return ((uint32_t)hash + probe % PROBES) % (n / 2) + probe / PROBES * (n / 2);
}

static uint32_t place(uint64_t address, uint32_t probe)
{
    return place_in(SLOTS, (address >> 4) * 0x9e3779b97f4a7c15ull >> 40, probe);
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
    for (uint32_t i = 0; i < 2 * PROBES; i++) {
        uint32_t at = place(address, i);
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
    for (uint32_t i = 0; i < 2 * PROBES; i++) {
        uint32_t at = place(address, i);
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

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, const unsigned char *p, size_t n)
{
    uint64_t word = n;
    for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
        hash = mix(hash, word);
        memcpy(&word, p, sizeof word);
    }
    hash = mix(hash, word);
    word = 0;
    memcpy(&word, p, n);
    return mix(hash, word);
}

/* The place of `hash`, from now on if it had none; 0: no room. */
static uint32_t number_of(struct codes *c, uint64_t hash, bool *is_new)
{
    *is_new = false;
    for (uint32_t i = 0; i < 2 * PROBES; i++) {
        uint32_t at = place_in(CODES_NUMBERS, hash >> 40, i);
        uint64_t there = 0;
        if (!at)
            continue;
        *is_new = atomic_compare_exchange_strong(&c->number[at], &there, hash);
        if (*is_new || there == hash)
            return at;
    }
    return 0;
}

#define NUMBERS_BITS (2 * CODES_NUMBER_BITS)

uint64_t codes_intern(struct codes *c, uint64_t address, struct code_record *r, size_t bytes,
                      bool *is_new)
{
    size_t names = r->qualname_bytes + r->file_name_bytes;
    bool unused;
    *is_new = false;
    uint64_t hash = mix(mix(r->first_line, (uint64_t)r->qualname_bytes << 32 | r->qualname_kind),
                        r->file_name_kind);
    hash = mix_bytes(hash, r->text, names);
    /* The lowest bit distinguishes the two. */
    r->function = number_of(c, hash | 1, &unused);
    hash = mix_bytes(mix(hash, r->first_traceable), r->text + names, bytes - sizeof *r - names);
    r->number = r->function ? number_of(c, (hash | 2) & ~1ull, is_new) : 0;
    uint64_t id = r->number ? codes_add(c, address, &unused) : 0;
    if (id)
        atomic_store_explicit(&c->numbers[id & (SLOTS - 1)],
                              id >> SLOT_BITS << NUMBERS_BITS |
                                  (uint64_t)r->number << CODES_NUMBER_BITS | r->function,
                              memory_order_release);
    return id;
}

struct code_numbers codes_numbers(const struct codes *c, uint64_t id)
{
    uint64_t numbers = atomic_load_explicit(&c->numbers[id & (SLOTS - 1)], memory_order_acquire);
    if (!id || numbers >> NUMBERS_BITS != id >> SLOT_BITS)
        return (struct code_numbers){0};
    return (struct code_numbers){.number = numbers >> CODES_NUMBER_BITS & (CODES_NUMBERS - 1),
                                 .function = numbers & (CODES_NUMBERS - 1)};
}

void codes_forget(struct codes *c, uint64_t address)
{
    for (uint32_t i = 0; i < 2 * PROBES; i++) {
        _Atomic uint64_t *slot = &c->slot[place(address, i)];
        uint64_t value = atomic_load_explicit(slot, memory_order_acquire);
        if (!value)
            return;
        if ((value & ~GENERATION_MASK) == key_of(address))
            atomic_compare_exchange_strong(slot, &value, value & GENERATION_MASK);
    }
}
