#include "names.h"

#include <string.h>

#include "map.h"

#define BYTES_MAX 4096u

static uint32_t hash_of(const char *name, size_t length)
{
    uint64_t h = length, word;
    for (; length >= sizeof word; name += sizeof word, length -= sizeof word) {
        memcpy(&word, name, sizeof word);
        h = map_hash(h ^ word);
    }
    for (word = 0; length; length--)
        word = word << 8 | (unsigned char)*name++;
    return (uint32_t)map_hash(h ^ word);
}

static uint32_t new_number(struct names *names, const char *name, size_t length)
{
    uint32_t number =
        atomic_load(&names->n) < names->max ? atomic_fetch_add(&names->n, 1) : names->max;
    char *copy = number < names->max ? strndup(name, length) : NULL;
    if (!copy)
        return 0;
    atomic_store(&names->text[number], copy);
    return number;
}

uint32_t names_number(struct names *names, const char *name)
{
    size_t length = strnlen(name, BYTES_MAX);
    uint32_t made = 0, mask = 2 * names->max - 1;
    for (uint32_t at = hash_of(name, length) & mask;; at = (at + 1) & mask) {
        uint32_t number = atomic_load_explicit(&names->place[at], memory_order_acquire);
        if (!number) {
            if (!made && !(made = new_number(names, name, length)))
                return 0;
            if (atomic_compare_exchange_strong(&names->place[at], &number, made))
                return made;
        }
        const char *text = atomic_load(&names->text[number]);
        if (!strncmp(text, name, length) && !text[length])
            return number; /* (another thread was faster: ours is one that nobody uses) */
    }
}
