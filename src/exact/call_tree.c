#include "call_tree.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "map.h"
#include "makers.h"
#include "path_memo.h"
#include "records.h"

#define FIRST_TABLE 256
#define FIRST_CHILD_BITS 6
#define FIRST_STACK 64

_Atomic(struct exact *) exact_current;

static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static uint32_t generations;

/* Threads outlive sessions: `alive` is the session whose records still exist. */
static pthread_mutex_t alive_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t alive;

static void set_alive(uint32_t generation)
{
    pthread_mutex_lock(&alive_lock);
    alive = generation;
    pthread_mutex_unlock(&alive_lock);
}

static void on_thread_end(void *unused)
{
    (void)unused;
    struct exact_this_thread last = exact_this_thread;
    exact_this_thread = (struct exact_this_thread){0};
    pthread_mutex_lock(&alive_lock);
    if (alive && last.generation == alive)
        atomic_store(&last.thread->ended, 1);
    pthread_mutex_unlock(&alive_lock);
}

void exact_after_fork_child(void)
{
    pthread_mutex_init(&alive_lock, NULL);
    alive = 0;
    atomic_store(&exact_current, NULL);
}

static void make_key(void)
{
    pthread_key_create(&thread_key, on_thread_end);
}

struct exact *exact_new(struct codes *codes, const struct py_layout *layout,
                        uint64_t main_stack_high, uint32_t max_nodes)
{
    pthread_once(&thread_key_once, make_key);
    struct exact *x = map_memory(sizeof *x);
    struct paths *paths = map_memory(sizeof *paths);
    if (!x || !paths) {
        map_memory_free(x, sizeof *x);
        map_memory_free(paths, sizeof *paths);
        return NULL;
    }
    *x = (struct exact){.generation = ++generations,
                        .codes = codes,
                        .layout = layout,
                        .main_stack_high = main_stack_high,
                        .max_nodes =
                            max_nodes < EXACT_NODES_MAX / 2 ? max_nodes : EXACT_NODES_MAX / 2,
                        .use_tsc = arch_ticks_steady(),
                        .paths = paths,
                        .slow = {.until = 1, .stands_for = 1}};
    pthread_mutex_init(&x->lock, NULL);
    x->start_ticks = x->origin_ticks = exact_ticks(x);
    x->origin_ns = clock_now_ns();
    return x;
}

void exact_free(struct exact *x)
{
    if (!x)
        return;
    set_alive(0);
    x->n_holds = 0;
    for (struct exact_thread *t; (t = atomic_load(&x->threads));)
        exact_remove_thread(x, NULL, t);
    block_queue_clear(&x->new_codes);
    block_queue_clear(&x->code_facts);
    map_clear(&x->facts_recorded);
    map_memory_free(x->paths, sizeof *x->paths);
    open_calls_clear(&x->open);
    pthread_mutex_destroy(&x->lock);
    map_memory_free(x, sizeof *x);
}

/* A new thread's, in one mapping: most need no more. */
struct first_block {
    struct exact_thread thread;
    struct exact_frame stack[FIRST_STACK];
    struct exact_c_call c_calls[FIRST_STACK];
    struct exact_child children[1 << FIRST_CHILD_BITS];
    uint32_t table[FIRST_TABLE];
    struct exact_drained drained[(1 << EXACT_CHUNK_BITS) + 1];
    uint64_t blocks[EXACT_FIRST_BLOCKS];
    struct memo_set memo[MEMO_SETS] __attribute__((aligned(64)));
    struct exact_node nodes[1 << EXACT_CHUNK_BITS] __attribute__((aligned(64)));
};

/* Else map_memory_grow would take them for mappings of their own. */
_Static_assert(sizeof((struct first_block *)0)->drained < MAP_PAGE &&
                   sizeof((struct first_block *)0)->blocks < MAP_PAGE,
               "pieces of the first block");

/* Unless it lies in the first block. */
static void free_piece(struct exact_thread *t, void *piece, size_t bytes)
{
    if ((uintptr_t)piece - (uintptr_t)t >= sizeof(struct first_block))
        map_memory_free(piece, bytes);
}

static size_t chunk_bytes(uint32_t chunk)
{
    return sizeof(struct exact_node) << (EXACT_CHUNK_BITS + chunk);
}

/* `c_calls` comes after it, as in the first block. */
static size_t stack_bytes(const struct exact_thread *t, uint32_t capacity)
{
    return capacity * (sizeof *t->stack + (t->c_calls ? sizeof *t->c_calls : 0));
}

static void free_thread(struct exact_thread *t)
{
    for (uint32_t i = 0; i < EXACT_CHUNKS; i++)
        free_piece(t, t->chunk[i], chunk_bytes(i));
    free_piece(t, t->table, ((size_t)t->mask + 1) * sizeof *t->table);
    free_piece(t, t->children, sizeof *t->children << t->child_bits);
    free_piece(t, t->stack, stack_bytes(t, t->capacity));
    for (struct exact_frame *s = t->outgrown, *before; s; s = before) {
        before = (struct exact_frame *)s->frame;
        map_memory_free(s, s->entry);
    }
    map_memory_free(t->line, t->n_lines * sizeof *t->line);
    map_memory_free(t->place, EXACT_PLACES * sizeof *t->place);
    free_piece(t, t->memo.set, t->memo.n_sets * sizeof *t->memo.set);
    map_memory_free(t->events.slot, EVENT_SLOTS * sizeof *t->events.slot);
    map_memory_free(t->emitted, t->emitted_bytes);
    calls_clear(&t->calls);
    watched_clear(&t->watched);
    map_memory_free(t->usage, t->usage_bytes);
    free_piece(t, t->drained, t->drained_bytes);
    free_piece(t, t->blocks, t->blocks_bytes);
    map_memory_free(t->call_places, t->call_places_bytes);
    map_memory_free(t, sizeof(struct first_block));
}

static struct exact_thread *new_thread(struct exact *x)
{
    struct first_block *block = map_memory_filled(sizeof *block);
    if (!block)
        return NULL;
    struct exact_thread *t = &block->thread;
    t->serial = atomic_fetch_add(&x->serials, 1) + 1;
    t->mask = FIRST_TABLE - 1;
    t->table = block->table;
    t->capacity = FIRST_STACK;
    t->stack = block->stack;
    t->c_calls = x->c_calls ? block->c_calls : NULL;
    t->child_bits = FIRST_CHILD_BITS;
    t->children = block->children;
    t->chunk[0] = block->nodes;
    t->drained = block->drained;
    t->drained_bytes = sizeof block->drained;
    t->blocks = (struct exact_block *)block->blocks;
    t->blocks_bytes = sizeof block->blocks;
    t->memo = (struct memo){.set = block->memo, .n_sets = MEMO_SETS};
    t->events.last = t->events_ticks = x->start_ticks;
    makers_begin_thread(t);
    if (x->logs && !(t->events.slot = map_memory(EVENT_SLOTS * sizeof *t->events.slot))) {
        free_thread(t);
        return NULL;
    }
    return t;
}

struct exact_thread *exact_add_thread(struct exact *x, const char *name)
{
    struct exact_thread *t = new_thread(x);
    if (!t)
        return NULL;
    t->tid = (pid_t)syscall(SYS_gettid);
    t->handle = (uint32_t)pthread_self();
    t->first_ns = clock_now_ns();
    prctl(PR_GET_NAME, t->comm);
    memcpy(t->name, name, strlen(name));
    pthread_setspecific(thread_key, t);
    t->next = atomic_load(&x->threads);
    while (!atomic_compare_exchange_weak(&x->threads, &t->next, t))
        ;
    set_alive(x->generation);
    exact_this_thread.thread = t;
    exact_this_thread.generation = x->generation;
    return t;
}

bool exact_remove_thread(struct exact *x, struct exact_thread *before, struct exact_thread *t)
{
    struct exact_thread *first = t;
    pthread_mutex_lock(&x->lock);
    if (x->n_holds) {
        pthread_mutex_unlock(&x->lock);
        return false;
    }
    if (before || !atomic_compare_exchange_strong(&x->threads, &first, t->next)) {
        for (before = before ? before : first; before->next != t; before = before->next)
            ; /* others have come */
        before->next = t->next;
    }
    pthread_mutex_unlock(&x->lock);
    if (t->fold)
        atomic_fetch_sub_explicit(&x->n_nodes, atomic_load(&t->n), memory_order_relaxed);
    free_thread(t);
    return true;
}

bool exact_grow_stack(struct exact_thread *t)
{
    size_t bytes = stack_bytes(t, t->capacity);
    struct exact_frame *larger = map_memory(2 * bytes), *old = t->stack;
    if (!larger)
        return false;
    memcpy(larger, old, t->capacity * sizeof *old);
    if (t->c_calls) {
        struct exact_c_call *c_calls = (struct exact_c_call *)(larger + 2 * (size_t)t->capacity);
        memcpy(c_calls, t->c_calls, t->capacity * sizeof *c_calls);
        __atomic_store_n(&t->c_calls, c_calls, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&t->stack, larger, __ATOMIC_RELEASE);
    t->capacity *= 2;
    if (old == ((struct first_block *)t)->stack)
        return true;
    __atomic_store_n(&old->node, NULL, __ATOMIC_RELEASE);
    old->frame = (uint64_t)t->outgrown;
    old->entry = bytes;
    t->outgrown = old;
    return true;
}

/* --- the tree ----------------------------------------------------------------------------------- */

static struct exact_node *node_at(const struct exact_thread *t, uint32_t id)
{
    uint32_t at = id + (1u << EXACT_CHUNK_BITS), bits = 31u - (uint32_t)__builtin_clz(at);
    return &t->chunk[bits - EXACT_CHUNK_BITS][at - (1u << bits)];
}

const struct exact_node *exact_read_node(const struct exact_thread *t, uint32_t id)
{
    return node_at(t, id);
}

/* A slot of the table is a node's id and, above it, as many bits of its hash as there is room for: few other nodes are
 * looked at, each of which is far away in memory. */
#define ID_BITS (EXACT_CHUNK_BITS + EXACT_CHUNKS)
#define ID_MASK ((1u << ID_BITS) - 1)

static uint32_t slot_of(uint64_t hash, uint32_t id)
{
    return (uint32_t)(hash >> (32 + ID_BITS)) << ID_BITS | id;
}

static uint64_t hash_of(uint32_t parent, uint64_t word)
{
    return map_hash(frame_key(word) ^ (uint64_t)parent * 0x9e3779b97f4a7c15ull);
}

/* The parent's node of that word; NULL: there is none. */
static struct exact_node *find(const struct exact_thread *t, uint32_t parent, uint64_t word)
{
    uint64_t key = frame_key(word), hash = hash_of(parent, word);
    uint32_t at = (uint32_t)hash & t->mask, tag = slot_of(hash, 0);
    for (uint32_t slot; (slot = t->table[at]); at = (at + 1) & t->mask) {
        if ((slot & ~ID_MASK) != tag)
            continue;
        struct exact_node *n = node_at(t, slot & ID_MASK);
        if (frame_key(n->word) == key && n->parent == parent)
            return n;
    }
    return NULL;
}

/* A node that is not in the table. */
static void put(struct exact_thread *t, const struct exact_node *n)
{
    uint64_t hash = hash_of(n->parent, n->word);
    uint32_t at = (uint32_t)hash & t->mask;
    while (t->table[at])
        at = (at + 1) & t->mask;
    t->table[at] = slot_of(hash, n->id);
}

/* Those called lately are found again. */
static void grow_children(struct exact_thread *t)
{
    struct exact_child *larger = map_memory(sizeof *larger << (t->child_bits + 1));
    if (!larger)
        return;
    free_piece(t, t->children, sizeof *t->children << t->child_bits);
    t->children = larger;
    t->child_bits++;
}

static bool grow_table(struct exact_thread *t)
{
    uint32_t *old = t->table, old_mask = t->mask, n = atomic_load(&t->n);
    uint32_t *larger = map_memory(2 * ((size_t)old_mask + 1) * sizeof *larger);
    if (!larger)
        return false;
    t->table = larger;
    t->mask = 2 * old_mask + 1;
    for (uint32_t id = 1; id <= n; id++)
        put(t, node_at(t, id));
    free_piece(t, old, ((size_t)old_mask + 1) * sizeof *old);
    grow_children(t);
    return true;
}

/* Node `id`, the next one's memory.  NULL: there is none. */
static struct exact_node *make_room(struct exact_thread *t, uint32_t id)
{
    uint32_t at = id + (1u << EXACT_CHUNK_BITS);
    uint32_t i = 31u - (uint32_t)__builtin_clz(at) - EXACT_CHUNK_BITS;
    if (!t->chunk[i] && !(t->chunk[i] = map_memory(chunk_bytes(i))))
        return NULL;
    return node_at(t, id);
}

static struct exact_node *add(struct exact *x, struct exact_thread *t, uint32_t parent,
                              uint64_t word)
{
    uint32_t id = atomic_load(&t->n) + 1;
    if ((id > t->mask / 2 && !grow_table(t)) || id > EXACT_NODES_MAX)
        return NULL;
    struct exact_node *n = make_room(t, id);
    if (!n)
        return NULL;
    atomic_store_explicit(&n->word, word, memory_order_relaxed);
    n->id = id;
    n->parent = parent;
    put(t, n);
    atomic_fetch_add_explicit(&x->n_nodes, 1, memory_order_relaxed);
    atomic_store_explicit(&t->n, id, memory_order_release);
    return n;
}

struct exact_node *exact_child(struct exact *x, struct exact_thread *t, struct exact_node *parent,
                               uint64_t word)
{
    if (exact_is_full(parent))
        return parent;
    struct exact_node *n = find(t, parent->id, word);
    if (!n && x->n_nodes < x->max_nodes)
        n = add(x, t, parent->id, word);
    if (n)
        return n;
    word = frame_pseudo(PSEUDO_TREE_FULL);
    n = find(t, parent->id, word);
    if (!n && x->n_nodes < x->max_nodes + x->max_nodes / 8 + 2)
        n = add(x, t, parent->id, word);
    /* Where not even that fits, the parent stands for what it calls. */
    return n ? n : parent;
}

/* --- code objects -------------------------------------------------------------------------------- */

const struct code_record *exact_read_code(struct exact *x)
{
    size_t bytes;
    const struct code_record *r = block_queue_peek(&x->new_codes, &bytes);
    if (r)
        block_queue_release(&x->new_codes, r->head.size);
    return r;
}

uint64_t exact_intern_code(struct exact *x, uint64_t code)
{
    uint64_t id = codes_find(x->codes, code);
    if (id && codes_numbers(x->codes, id).function)
        return id;
    struct code_record *r = block_queue_reserve(&x->new_codes, CODE_RECORD_MAX, BLOCK_QUEUE_BYTES);
    size_t bytes = r ? code_record_fill(r, code, memread_known) : 0;
    if (!bytes)
        return 0;
    bool is_new;
    id = codes_intern(x->codes, code, r, bytes, &is_new);
    if (is_new) {
        r->head = (struct ring_record){.size = (uint32_t)((bytes + 7) & ~7ull)};
        block_queue_commit(&x->new_codes, bytes);
    }
    return id;
}

/* The code object with this id is called there: so it will be again. */
static struct exact_node *called(struct exact_node *parent, uint64_t code, uint64_t id,
                                 struct exact_node *n)
{
    uint64_t word = n->word;
    if (frame_code_id(word) != id)
        atomic_store_explicit(&n->word, frame_function(id, 0) | frame_key(word),
                              memory_order_relaxed);
    return parent->hot[code >> 6 & 1] = n;
}

struct exact_node *exact_find_python(struct exact *x, struct exact_thread *t,
                                     struct exact_node *parent, uint64_t code, uint64_t globals)
{
    uint64_t id = codes_find(x->codes, code);
    struct exact_node *known = exact_known_child(t, parent, id);
    if (id && known)
        return called(parent, code, id, known);
    id = exact_intern_code(x, code);
    if (!id)
        return exact_child(x, t, parent, frame_pseudo(PSEUDO_UNKNOWN_PYTHON));
    uint64_t word = frame_function(id, codes_numbers(x->codes, id).function);
    uint64_t marks = x->marks ? x->marks(x, t, parent, word, code, globals) : 0;
    word |= marks;
    struct exact_node *n = exact_child(x, t, parent, word);
    if (marks & PYH_FUNCTION_OWN || n == parent || frame_key(n->word) != frame_key(word))
        return n; /* full, or ours: who finds it among those called last records it */
    exact_remember_child(t, parent, id, n);
    return called(parent, code, id, n);
}

struct exact_node *exact_find_region(struct exact *x, struct exact_thread *t,
                                     struct exact_node *parent, uint64_t word)
{
    struct exact_node *n = exact_known_child(t, parent, word);
    if (n)
        return n;
    n = exact_child(x, t, parent, word);
    if (n->word == word)
        exact_remember_child(t, parent, word, n);
    return n;
}
