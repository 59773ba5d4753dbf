/* canonical.c - from raw frame words to canonical ones (frame.h), and what the spool must know of them: code
 * objects, modules, the functions of native addresses.
 *
 * Context: the drain thread; never needs the GIL.
 */
#include "drain_parts.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

#include "cfi.h"
#include "frame.h"
#include "loader_lock.h"
#include "map.h"
#include "records.h"
#include "spool.h"

#define FUNCTIONS 2048 /* native words whose functions are sought at once */

struct canonical {
    struct spool *spool;
    struct modules *modules;
    struct map native;           /* address -> canonical word */
    struct map starts;           /* address of a function's start -> canonical word */
    struct map codes;            /* a code object's number (codes.h) -> code index */
    struct map python_functions; /* number of a function -> code index of one of its code objects */
    uint32_t n_codes;
    uint32_t n_functions;
    struct {
        uint64_t pc;
        struct spool_function function;
    } functions[FUNCTIONS];
    struct spool_function found[FUNCTIONS];
    bool has_unknown; /* words in no module */
    /* Not on the stack: sampler_pause runs on one of the program's. */
    unsigned char text[4 * 2 * CODE_TEXT_MAX + CODE_LINE_TABLE_MAX];
};

struct canonical *canonical_new(struct spool *s)
{
    struct canonical *w = map_memory(sizeof *w);
    if (!w)
        return NULL;
    w->spool = s;
    if ((w->modules = modules_new()))
        return w;
    canonical_free(w);
    return NULL;
}

void canonical_free(struct canonical *w)
{
    if (!w)
        return;
    modules_free(w->modules);
    map_clear(&w->native);
    map_clear(&w->starts);
    map_clear(&w->codes);
    map_clear(&w->python_functions);
    map_memory_free(w, sizeof *w);
}

/* CPython's characters of 1, 2 or 4 bytes as UTF-8.  `out` holds 4 bytes for each character. */
static size_t to_utf8(unsigned char *out, const unsigned char *text, size_t bytes, uint32_t kind)
{
    unsigned char *o = out;
    for (size_t i = 0; i + kind <= bytes; i += kind) {
        uint32_t c = 0;
        memcpy(&c, text + i, kind);
        if (c < 0x80) {
            *o++ = (unsigned char)c;
        } else if (c < 0x800) {
            *o++ = (unsigned char)(0xc0 | c >> 6);
            *o++ = (unsigned char)(0x80 | (c & 0x3f));
        } else if (c < 0x10000) {
            *o++ = (unsigned char)(0xe0 | c >> 12);
            *o++ = (unsigned char)(0x80 | (c >> 6 & 0x3f));
            *o++ = (unsigned char)(0x80 | (c & 0x3f));
        } else {
            *o++ = (unsigned char)(0xf0 | (c >> 18 & 7));
            *o++ = (unsigned char)(0x80 | (c >> 12 & 0x3f));
            *o++ = (unsigned char)(0x80 | (c >> 6 & 0x3f));
            *o++ = (unsigned char)(0x80 | (c & 0x3f));
        }
    }
    return (size_t)(o - out);
}

/* It has a number of its own, and is perhaps not the first of its function. */
void canonical_take_code(struct canonical *w, const struct code_record *r)
{
    uint64_t *index = map_put(&w->codes, r->number);
    uint64_t *function = map_put(&w->python_functions, r->function);
    if (!index || !function)
        return;
    unsigned char *text = w->text;
    const unsigned char *p = r->text;
    size_t qualname = to_utf8(text, p, r->qualname_bytes, r->qualname_kind);
    p += r->qualname_bytes;
    size_t file_name = to_utf8(text + qualname, p, r->file_name_bytes, r->file_name_kind);
    p += r->file_name_bytes;
    memcpy(text + qualname + file_name, p, r->line_table_bytes);
    struct spool_code code = {.index = ++w->n_codes,
                              .first_line = r->first_line,
                              .first_traceable = r->first_traceable,
                              .qualname_length = (uint32_t)qualname,
                              .file_name_length = (uint32_t)file_name,
                              .line_table_length = r->line_table_bytes};
    spool_append(w->spool, SPOOL_CODE, &code, sizeof code, text,
                 qualname + file_name + r->line_table_bytes);
    *index = code.index;
    if (!*function)
        *function = code.index;
}

static int find_functions(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct canonical *w = arg;
    (void)info;
    (void)size;
    for (uint32_t i = 0; i < w->n_functions; i++) {
        uint64_t pc = w->functions[i].pc, word = w->functions[i].function.word, start, end;
        if (word >> PYH_ADDR_BITS && cfi_function(pc, &start, &end))
            w->functions[i].function.start = (word & PYH_ADDR_MASK) - (pc - start);
    }
    return 1;
}

static void note_start(struct canonical *w, uint64_t pc, const struct spool_function *function)
{
    uint64_t base = pc - (function->word & PYH_ADDR_MASK);
    uint64_t *word = function->start ? map_put(&w->starts, base + function->start) : NULL;
    if (word)
        *word = frame_module((uint32_t)(function->word >> PYH_ADDR_BITS), function->start);
}

/* Inside dl_iterate_phdr no library can go away while its unwind information is read. */
static void flush_functions(struct canonical *w)
{
    if (!w->n_functions)
        return;
    loader_iterate(find_functions, w);
    for (uint32_t i = 0; i < w->n_functions; i++) {
        w->found[i] = w->functions[i].function;
        note_start(w, w->functions[i].pc, &w->found[i]);
    }
    spool_append(w->spool, SPOOL_FUNCTIONS, w->found, w->n_functions * sizeof *w->found, NULL, 0);
    w->n_functions = 0;
}

static uint64_t native_word(struct canonical *w, uint64_t pc)
{
    uint64_t *word = map_put(&w->native, pc);
    if (!word)
        return frame_module(0, pc);
    if (!*word) {
        *word = modules_word(w->modules, pc);
        w->has_unknown |= !(*word >> PYH_ADDR_BITS);
        if (w->n_functions == FUNCTIONS)
            flush_functions(w);
        w->functions[w->n_functions].pc = pc;
        w->functions[w->n_functions++].function = (struct spool_function){*word, 0};
    }
    return *word;
}

uint64_t canonical_word(struct canonical *w, uint64_t raw)
{
    switch (frame_tag(raw)) {
    case PYH_TAG_NATIVE:
        return native_word(w, raw);
    case PYH_TAG_C_CALL:
        return frame_c_call(native_word(w, raw & PYH_ADDR_MASK));
    case PYH_TAG_PYTHON: {
        uint64_t *index = map_get(&w->codes, frame_code_id(raw));
        return index && *index ? frame_python(*index, raw & PYH_OFFSET_MASK) : 0;
    }
    case PYH_TAG_FUNCTION: {
        uint64_t *index = map_get(&w->python_functions, raw & PYH_FUNCTION_MASK);
        return index && *index ? frame_python(*index, 0) : 0;
    }
    }
    return raw;
}

uint64_t canonical_function(const struct canonical *w, uint64_t start)
{
    const uint64_t *word = map_get(&w->starts, start); /* perhaps of a library that went since */
    return word && modules_word(w->modules, start) == *word ? *word : 0;
}

enum modules_change canonical_begin(struct canonical *w)
{
    enum modules_change change = modules_update(w->modules, w->spool);
    if (change == MODULES_CAME && w->has_unknown) {
        map_zero_below(&w->native, 1ull << PYH_ADDR_BITS); /* they may be in that one */
        change = MODULES_WENT;
    } else if (change == MODULES_WENT) {
        map_clear(&w->native);
    }
    w->has_unknown &= change == MODULES_SAME;
    return change;
}

void canonical_end(struct canonical *w)
{
    flush_functions(w);
    modules_drop_ended(w->modules);
}
