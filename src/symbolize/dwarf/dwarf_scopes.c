/* dwarf_scopes.c - the functions and inlined calls of one unit that contain wanted addresses.
 *
 * Context: as symbolize.h; private to dwarf_lines.c.
 *
 * One walk over a unit's tree of entries.
 *
 * Targets move down a tree of scopes: first to the function that contains them, then to each
 * inlined call below it that does.  A target moves only from the scope just above, so that chains
 * nest even where ranges do not.
 *
 * Most compilers put a unit's functions directly below it, and only these are looked at first; if
 * targets are left (functions inside namespaces as clang has them, or inside functions as in GNU C
 * and Fortran), a second walk goes everywhere.
 */
#include "dwarf_lines.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#define DEPTH_MAX 512 /* of entries; deeper ones are left out */
/* How much one unit may cost, which damaged siblings and ranges could make us read over and over:
 * entries and ranges by the unit's size, where gcc's need less than 1 a byte, and targets. */
#define STEPS_PER_BYTE 16
#define STEPS_PER_TARGET DEPTH_MAX
#define CHUNK_SCOPES 256

struct scope_chunk {
    struct scope_chunk *next;
    size_t used;
    struct scope scopes[CHUNK_SCOPES];
};

struct walk {
    struct scope_chunk **scopes;
    struct target *targets;
    size_t n_targets;
    size_t n_without_function;
    Dwarf_Files *files;
    uint64_t steps_left;
    int everywhere;
    int depth;
    int error;
};

size_t target_at_or_above(const struct target *targets, size_t n, uint64_t address)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (targets[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const char *name_of(Dwarf_Die *die)
{
    static const unsigned attributes[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name};
    const char *name = NULL;

    for (size_t i = 0; !name && i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        Dwarf_Attribute attribute;

        name = dwarf_formstring(dwarf_attr_integrate(die, attributes[i], &attribute));
    }
    return name;
}

static struct source_function function_of(Dwarf_Die *die)
{
    struct source_function function = {.name = name_of(die), .file = dwarf_decl_file(die)};
    int line;

    if (dwarf_decl_line(die, &line) == 0 && line > 0)
        function.line = (unsigned)line;
    return function;
}

/* Room for one more scope, not taken yet. */
static struct scope *next_scope(struct scope_chunk **scopes)
{
    struct scope_chunk *chunk = *scopes;

    if (!chunk || chunk->used == CHUNK_SCOPES) {
        chunk = calloc(1, sizeof(*chunk));
        if (!chunk)
            return NULL;
        chunk->next = *scopes;
        *scopes = chunk;
    }
    return &chunk->scopes[chunk->used];
}

void scopes_free(struct scope_chunk *scopes)
{
    while (scopes) {
        struct scope_chunk *next = scopes->next;

        free(scopes);
        scopes = next;
    }
}

/* Moves the targets in the DIE's ranges from one scope to another; returns how many there were. */
static size_t move_targets(struct walk *w, Dwarf_Die *die, const struct scope *from,
                           const struct scope *to)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t next = 0;
    size_t moved = 0;

    while (w->steps_left && (next = dwarf_ranges(die, next, &base, &start, &end)) > 0) {
        size_t i = target_at_or_above(w->targets, w->n_targets, start);

        if (start <= RANGE_DROPPED)
            i = w->n_targets;
        for (; w->steps_left && i < w->n_targets && w->targets[i].address < end; i++) {
            w->steps_left--;
            if (w->targets[i].scope == from) {
                w->targets[i].scope = to;
                moved++;
            }
        }
        w->steps_left -= w->steps_left > 0;
    }
    return moved;
}

static void visit_children(struct walk *w, Dwarf_Die *parent, const struct scope *scope);

static void visit_function(struct walk *w, Dwarf_Die *die)
{
    struct scope *scope = next_scope(w->scopes);
    size_t moved;

    if (!scope) {
        w->error = -ENOMEM;
        return;
    }
    moved = move_targets(w, die, NULL, scope);
    if (moved) {
        (*w->scopes)->used++;
        scope->function = function_of(die);
        w->n_without_function -= moved;
        visit_children(w, die, scope);
    } else if (w->everywhere) {
        visit_children(w, die, NULL); /* for functions in it, whose code lies elsewhere */
    }
}

static unsigned number_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;

    return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) == 0 ? (unsigned)value : 0;
}

static void visit_inlined(struct walk *w, Dwarf_Die *die, const struct scope *parent)
{
    struct scope *scope = next_scope(w->scopes);

    if (!scope) {
        w->error = -ENOMEM;
        return;
    }
    if (!move_targets(w, die, parent, scope))
        return;
    (*w->scopes)->used++;
    scope->inlined = 1;
    scope->function = parent->function;
    scope->call.function = function_of(die);
    scope->call.call_file =
        w->files ? dwarf_filesrc(w->files, number_of(die, DW_AT_call_file), NULL, NULL) : NULL;
    scope->call.call_line = number_of(die, DW_AT_call_line);
    scope->call.caller = parent->inlined ? &parent->call : NULL;
    visit_children(w, die, scope);
}

/* A block without ranges is looked into, and outside of functions so is every block: by then
 * functions inside functions are sought. */
static void visit_block(struct walk *w, Dwarf_Die *die, const struct scope *scope)
{
    int has_ranges = dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges);

    if (!scope || !has_ranges || move_targets(w, die, scope, scope))
        visit_children(w, die, scope);
}

static void visit(struct walk *w, Dwarf_Die *die, const struct scope *scope)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
    case DW_TAG_entry_point:
        visit_function(w, die);
        break;
    case DW_TAG_inlined_subroutine:
        if (scope)
            visit_inlined(w, die, scope);
        break;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
        visit_block(w, die, scope);
        break;
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
        if (w->everywhere)
            visit_children(w, die, scope);
        break;
    }
}

static void visit_children(struct walk *w, Dwarf_Die *parent, const struct scope *scope)
{
    Dwarf_Die die;

    if (w->depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
        return;
    w->depth++;
    do {
        if (w->steps_left == 0 || w->error || (!scope && w->n_without_function == 0))
            break;
        w->steps_left--;
        visit(w, &die, scope);
    } while (dwarf_siblingof(&die, &die) == 0);
    w->depth--;
}

static uint64_t steps_for(Dwarf *dwarf, Dwarf_Die *unit, size_t n_targets)
{
    Dwarf_Off start = dwarf_dieoffset(unit) - dwarf_cuoffset(unit), next;
    size_t header_size;

    if (dwarf_nextcu(dwarf, start, &next, &header_size, NULL, NULL, NULL) != 0)
        return 0;
    return STEPS_PER_BYTE * (next - start) + STEPS_PER_TARGET * n_targets;
}

int scopes_find(struct scope_chunk **scopes, Dwarf *dwarf, Dwarf_Die *unit, struct target *targets,
                size_t n)
{
    struct walk w = {.scopes = scopes, .targets = targets, .n_targets = n, .n_without_function = n};
    size_t n_files;

    w.steps_left = steps_for(dwarf, unit, n);
    if (dwarf_getsrcfiles(unit, &w.files, &n_files) != 0)
        w.files = NULL;
    visit_children(&w, unit, NULL);
    w.everywhere = 1;
    visit_children(&w, unit, NULL);
    return w.error;
}
