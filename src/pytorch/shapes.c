/* shapes.c - with which shapes operators are called: one call in twenty, by RecordFunction's own sampling.
 *
 * Where a record has its inputs, and a tensor its sizes and type, is not exported: it is proven at run time with tensors of known
 * sizes.  Each word is looked at, and a place counts if it alone has the right value each time.
 *
 * Context: the proof on one thread, with the GIL; what is noted on any thread, with or without it.
 */
#include "pytorch.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECORD_WORDS 48
#define TENSOR_WORDS 64
#define INLINE_SIZES 5 /* more are elsewhere: c10/core/impl/SizesAndStrides.h */
#define INPUTS_MAX 16
#define SIZES_MAX 8
#define SLOTS 4096
#define PLACES (1u << 15)

static const struct torch_library *library;

/* Bytes into a record: an ArrayRef<IValue>, which is a pointer and a number, both 0 where it has none; into a tensor's object; the tag of an IValue that is one. */
static struct {
    uint32_t inputs, sizes, type, tag;
} places;

static bool look_at(uint64_t address, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)address, bytes};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* --- the proof -------------------------------------------------------------------------------------- */

static uint64_t callback;
static bool has_callback;
static bool inputs_fit[RECORD_WORDS], sizes_fit[TENSOR_WORDS], type_fits[4 * TENSOR_WORDS];
static uint64_t expected[INPUTS_MAX];
static uint32_t n_expected, n_with, n_without, n_tensors;

/* Does the array at `address` have the inputs that are expected?  All tensors have one tag, and nothing else has it. */
static bool has_inputs(uint64_t address, uint32_t *tag)
{
    uint64_t value[2 * INPUTS_MAX];
    if (!look_at(address, value, n_expected * 16ull))
        return false;
    for (uint32_t i = 0; i < n_expected; i++) {
        uint32_t its = (uint32_t)value[2 * i + 1];
        if (expected[i] && value[2 * i] == expected[i] && !*tag)
            *tag = its;
        if (expected[i] ? value[2 * i] != expected[i] || its != *tag : its == *tag)
            return false;
    }
    return *tag;
}

static void *on_record(void **context, const void *record)
{
    *context = NULL;
    uint64_t word[RECORD_WORDS];
    if (!n_expected)
        return context;
    bool is_read = look_at((uint64_t)record, word, sizeof word);
    for (uint32_t i = 1; i + 1 < RECORD_WORDS; i++) {
        uint32_t tag = places.tag;
        inputs_fit[i] &= is_read && word[i + 1] == n_expected && has_inputs(word[i], &tag);
        if (inputs_fit[i])
            places.tag = tag;
    }
    n_expected = 0; /* what it calls is not it */
    n_with++;
    return context;
}

static void *on_bare_record(void **context, const void *record)
{
    *context = NULL;
    uint64_t word[RECORD_WORDS];
    bool is_read = look_at((uint64_t)record, word, sizeof word);
    for (uint32_t i = 1; i + 1 < RECORD_WORDS; i++)
        inputs_fit[i] &= is_read && !word[i] && !word[i + 1];
    n_without++;
    return context;
}

static void on_end(const void *record, void *context)
{
    (void)record;
    (void)context;
}

void shapes_proof_begin(const struct torch_library *of)
{
    library = of;
    memset(&places, 0, sizeof places);
    memset(inputs_fit, 1, sizeof inputs_fit);
    memset(sizes_fit, 1, sizeof sizes_fit);
    memset(type_fits, 1, sizeof type_fits);
    n_expected = n_with = n_without = n_tensors = 0;
}

void shapes_proof_pass(bool with_inputs)
{
    if (has_callback)
        library->remove_callback(callback);
    struct record_callback c = {.start = with_inputs ? on_record : on_bare_record,
                                .end = on_end,
                                .sampling_probability = 1.0,
                                .needs_inputs = with_inputs};
    c.scopes[SCOPE_FUNCTION] = true;
    callback = library->add_thread_callback(c);
    has_callback = true;
    n_expected = 0;
}

void shapes_proof_tensor(uint64_t address, const uint64_t *sizes, const uint64_t *strides,
                         uint32_t n, uint32_t type)
{
    uint64_t word[TENSOR_WORDS], more[2 * SIZES_MAX];
    memset(word, 0xff, sizeof word);
    for (uint32_t i = 0; i < TENSOR_WORDS && look_at(address + 8ull * i, &word[i], 8); i++)
        ;
    for (uint32_t i = 0; i < TENSOR_WORDS; i++) {
        bool fits = i + 2 * INLINE_SIZES < TENSOR_WORDS && n <= SIZES_MAX && word[i] == n;
        const uint64_t *at = &word[i + 1];
        uint32_t apart = n <= INLINE_SIZES ? INLINE_SIZES : n;
        if (fits && n > INLINE_SIZES) {
            fits = look_at(word[i + 1], more, 16ull * n);
            at = more;
        }
        for (uint32_t j = 0; fits && j < n; j++)
            fits = at[j] == sizes[j] && at[apart + j] == strides[j];
        sizes_fit[i] &= fits;
    }
    for (uint32_t i = 0; i < 4 * TENSOR_WORDS; i++) {
        uint16_t value;
        memcpy(&value, (const char *)word + 2 * i, sizeof value);
        type_fits[i] &= value == type;
    }
    n_tensors++;
}

void shapes_proof_expect(const uint64_t *inputs, uint32_t n)
{
    n_expected = n < INPUTS_MAX ? n : INPUTS_MAX;
    memcpy(expected, inputs, n_expected * sizeof *inputs);
}

/* The only one, in steps of `bytes`; 0: it is not the only one, or there is none. */
static uint32_t only(const bool *fits, uint32_t n, uint32_t bytes)
{
    uint32_t found = 0, n_found = 0;
    for (uint32_t i = 1; i < n; i++)
        if (fits[i]) {
            found = i * bytes;
            n_found++;
        }
    return n_found == 1 ? found : 0;
}

const char *shapes_proof_end(void)
{
    if (has_callback)
        library->remove_callback(callback);
    has_callback = false;
    if (n_with < 3 || n_without < 3 || n_tensors < 8)
        return "records of operators do not come";
    if (!(places.inputs = only(inputs_fit, RECORD_WORDS - 1, 8)))
        return "the place of a record's inputs";
    if (!(places.sizes = only(sizes_fit, TENSOR_WORDS, 8)))
        return "the place of a tensor's sizes";
    if (!(places.type = only(type_fits, 4 * TENSOR_WORDS, 2)))
        return "the place of a tensor's type";
    return NULL;
}

/* --- what is noted ---------------------------------------------------------------------------------- */

/* A call that finds others at it is not noted: nobody waits here, nor does a forked child. */
static _Atomic bool is_taken;
static struct shapes_entry table[SLOTS];
static struct shapes_place place[PLACES];
static uint32_t n_used, n_places;
static const struct backward_api *api;
static _Atomic uint64_t lost;
static _Atomic bool notes;

static bool put(struct shapes_entry *e, uint64_t word)
{
    if (e->n_words == SHAPES_WORDS)
        return false;
    e->word[e->n_words++] = word;
    return true;
}

static void put_inputs(struct shapes_entry *e, const char *record)
{
    const uint64_t *const *inputs = (const uint64_t *const *)(record + places.inputs);
    const uint64_t *value = inputs[0];
    for (uint64_t i = 0, n = (uint64_t)inputs[1]; value && i < n; i++) {
        if ((uint32_t)value[2 * i + 1] != places.tag || !value[2 * i]) {
            if (!put(e, ~0ull))
                return;
            continue;
        }
        const char *tensor = (const char *)value[2 * i];
        const uint64_t *sizes = (const uint64_t *)(tensor + places.sizes);
        uint64_t n_sizes = *sizes++;
        if (n_sizes > INLINE_SIZES)
            sizes = *(const uint64_t *const *)sizes;
        if (n_sizes + e->n_words + 1 > SHAPES_WORDS)
            return;
        put(e, (uint64_t)*(const uint16_t *)(tensor + places.type) << 32 | n_sizes);
        for (uint64_t j = 0; j < n_sizes; j++)
            put(e, sizes[j]);
    }
}

static uint32_t hash_of(const struct shapes_entry *e)
{
    uint64_t h = 0xcbf29ce484222325;
    for (const char *c = e->name; *c; c++)
        h = (h ^ (uint8_t)*c) * 0x100000001b3;
    for (uint32_t i = 0; i < e->n_words; i++)
        h = (h ^ e->word[i]) * 0x9e3779b97f4a7c15;
    return (uint32_t)(h >> 40);
}

/* Counts a call of the operator `of` where it was made.  What finds no room is in no place. */
static void put_place(uint32_t of, const struct maker *maker, bool is_later)
{
    struct shapes_place p = {
        .of = of, .thread = maker->thread, .node = maker->node, .is_later = is_later, .n = 1};
    uint64_t h = ((uint64_t)p.thread << 32 | p.node) * 0x9e3779b97f4a7c15 + of * 2u + is_later;
    uint32_t at = (uint32_t)(h * 0x9e3779b97f4a7c15 >> 40) % PLACES;
    while (place[at].n && (place[at].of != of || place[at].thread != p.thread ||
                           place[at].node != p.node || place[at].is_later != is_later))
        at = (at + 1) % PLACES;
    if (place[at].n) {
        place[at].n++;
    } else if (n_places < PLACES / 2) {
        n_places++;
        place[at] = p;
    }
}

static void *on_call(void **context, const void *record)
{
    *context = NULL;
    if (!atomic_load_explicit(&notes, memory_order_relaxed))
        return context;
    struct shapes_entry e = {.n_words = 0};
    const char *name = library->name(record);
    strncpy(e.name, name ? name : "", sizeof e.name - 1);
    put_inputs(&e, record);
    struct maker maker;
    bool is_later;
    bool is_known = api->here(&maker, &is_later);
    if (atomic_exchange_explicit(&is_taken, true, memory_order_acquire)) {
        lost++;
        return context;
    }
    uint32_t at = hash_of(&e) % SLOTS;
    while (table[at].n && (table[at].n_words != e.n_words || strcmp(table[at].name, e.name) ||
                           memcmp(table[at].word, e.word, e.n_words * sizeof *e.word)))
        at = (at + 1) % SLOTS;
    if (!table[at].n && n_used < SLOTS / 2) {
        n_used++;
        table[at] = e;
        table[at].n = 1;
    } else if (table[at].n) {
        table[at].n++;
    } else {
        lost++;
    }
    if (is_known && table[at].n)
        put_place(at, &maker, is_later);
    atomic_store_explicit(&is_taken, false, memory_order_release);
    return context;
}

#define WAITS_MAX 1000 /* in a forked child another thread may have it for ever */

void shapes_stop(void)
{
    notes = false;
    for (int i = 0; i < WAITS_MAX && is_taken; i++)
        sched_yield();
}

static bool is_added; /* for the process's life, as module.c has it */

bool shapes_are_proven(void)
{
    return is_added;
}

void shapes_note(double probability, const struct backward_api *of)
{
    shapes_stop();
    memset(table, 0, sizeof table);
    memset(place, 0, sizeof place);
    api = of;
    n_used = n_places = 0;
    lost = 0;
    is_taken = false;
    notes = true;
    if (is_added)
        return;
    struct record_callback c = {
        .start = on_call, .end = on_end, .sampling_probability = probability, .needs_inputs = true};
    c.scopes[SCOPE_FUNCTION] = true;
    library->add_global_callback(c);
    is_added = true;
}

const struct shapes_entry *shapes_at(uint32_t *at, uint64_t *n_lost)
{
    *n_lost = lost;
    for (; *at < SLOTS; ++*at)
        if (table[*at].n)
            return &table[*at];
    return NULL;
}

const struct shapes_place *shapes_place_at(uint32_t *at)
{
    for (; *at < PLACES; ++*at)
        if (place[*at].n)
            return &place[*at];
    return NULL;
}
