#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call_tree.h"
#include "codes.h"
#include "drain.h"
#include "frame.h"
#include "records.h"

/* Samples whose place in the kernel came another way: what the spool has of them. */

#define KERNEL(n) (0xffffffff81000000ull + (n))
#define MAX 4096

static const struct thread_limits limits = {.max_frames = 100, .ring_bytes = 1 << 20};
static struct registry *registry;
static struct spool *spool;
static struct drain *drain;
static struct thread *thread;
static int file;

/* There are no code objects here. */
size_t code_record_fill(struct code_record *r, uint64_t code, memread_way *read)
{
    (void)r;
    (void)code;
    (void)read;
    return 0;
}

static int set_up_for(uint32_t max_nodes)
{
    static struct registry r;
    memset(&r, 0, sizeof r);
    registry = &r;
    assert_int_equal(registry_init(registry), 0);
    file = memfd_create("spool", MFD_CLOEXEC);
    assert_int_equal(spool_open(&spool, file, 100), 0);
    drain = drain_new(spool, max_nodes, 0);
    thread = registry_add(registry, (pid_t)syscall(SYS_gettid), 1, &limits);
    return drain && thread ? drain_add_thread(thread, 1) : -1;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_for(10000);
}

static int set_up_small(void **state)
{
    (void)state;
    return set_up_for(4);
}

static int tear_down(void **state)
{
    (void)state;
    drain_remove_thread(drain, thread);
    registry_free(registry);
    drain_free(drain);
    spool_close(spool);
    return close(file);
}

static void sample(uint64_t time_ns, uint32_t weight, uint64_t word, bool in_kernel)
{
    struct sample_record *r = ring_reserve(&thread->ring, sizeof *r + 8);
    assert_non_null(r);
    struct ring_record head = r->head;
    *r = (struct sample_record){
        .head = head, .time_ns = time_ns, .weight = weight, .n_words = 1, .in_kernel = in_kernel};
    r->words[0] = word;
    counter_add(&thread->counters.signals, 1);
    counter_add(&thread->counters.recorded, 1);
    counter_add(&thread->counters.recorded_weight, weight);
    ring_commit(&thread->ring, r, sizeof *r + 8, RING_SAMPLE);
}

/* A tick in the kernel's function `n`, called by function 1; 0: in the program. */
static void tick(uint64_t time_ns, uint64_t n)
{
    uint64_t chain[] = {KERNEL(n), KERNEL(1) + 1};
    assert_true(drain_kernel(drain, thread, time_ns, chain, n ? 2 : 0));
}

/* What the spool has. */
static struct {
    size_t n;
    uint64_t time_ns[MAX], sum;
    uint32_t weight[MAX];
    uint32_t stack[MAX];            /* of a sample */
    uint64_t word[MAX], above[MAX]; /* a sample's innermost frame, and the one above it */
    uint32_t parent[MAX];           /* of a stack */
    uint64_t words[MAX];
    struct spool_counters counters;
} found;

static void take_samples(const struct spool_samples *head)
{
    const uint32_t *dt = (const uint32_t *)(head + 1), *stack = dt + head->n;
    const struct spool_weight *weights = (const struct spool_weight *)(stack + head->n);
    uint64_t now = head->first_ns;
    for (uint32_t i = 0, w = 0; i < head->n; i++, found.n++) {
        now += dt[i];
        uint32_t id = stack[i] & SPOOL_STACK_MAX;
        assert_true(found.n < MAX);
        assert_true(!found.n || now >= found.time_ns[found.n - 1]);
        found.time_ns[found.n] = now;
        found.weight[found.n] = 1;
        if (w < head->n_weights && weights[w].index == i)
            found.weight[found.n] = weights[w++].weight;
        found.stack[found.n] = id;
        found.word[found.n] = found.words[id];
        found.above[found.n] = found.words[found.parent[id]];
        found.sum += found.weight[found.n];
    }
}

static void read_spool(void)
{
    static uint64_t data[1 << 16];
    drain_snapshot(drain, thread, 0, 0);
    assert_int_equal(spool_commit(spool), 0);
    ssize_t size = pread(file, data, sizeof data, 0);
    memset(&found, 0, sizeof found);
    for (char *at = (char *)data + sizeof(struct spool_header); at < (char *)data + size;) {
        struct spool_record *r = (struct spool_record *)at;
        char *body = (char *)(r + 1);
        if (r->type == SPOOL_STACKS) {
            const struct spool_stacks *s = (const struct spool_stacks *)body;
            const uint32_t *p = (const uint32_t *)(s + 1);
            assert_true(s->first_id + s->n <= MAX);
            memcpy(found.parent + s->first_id, p, 4 * s->n);
            memcpy(found.words + s->first_id, p + s->n + (s->n & 1), 8 * s->n);
        } else if (r->type == SPOOL_SAMPLES) {
            take_samples((const struct spool_samples *)body);
        } else if (r->type == (SPOOL_COUNTERS | SPOOL_REPLACED)) {
            const struct spool_half *half[] = {(void *)body, (void *)(body + r->length / 2)};
            memcpy(&found.counters, half[half[1]->round > half[0]->round] + 1,
                   sizeof found.counters);
        }
        at += sizeof *r + (r->length + 7) / 8 * 8;
    }
    if (ring_peek(&thread->ring))
        return; /* there is more to come */
    assert_int_equal(found.counters.recorded, found.n);
    assert_int_equal(found.counters.signals, found.n);
    assert_int_equal(found.counters.recorded_weight, found.sum);
}

static void drain_it(void)
{
    drain_begin(drain);
    drain_thread(drain, thread, false);
    drain_end(drain);
    read_spool();
}

static void expect(size_t i, uint64_t time_ns, uint32_t weight, uint64_t word)
{
    assert_true(i < found.n);
    assert_int_equal(found.time_ns[i], time_ns);
    assert_int_equal(found.weight[i], weight);
    assert_int_equal(found.word[i], word);
}

#define PROGRAM frame_pseudo(PSEUDO_GAP) /* any frame that needs no module */
#define OTHER frame_pseudo(PSEUDO_BRIDGED)

static void a_tick_gives_its_sample_a_place(void **state)
{
    (void)state;
    tick(9, 0);
    sample(10, 1, PROGRAM, false);
    tick(19, 2);
    sample(20, 1, PROGRAM, true);
    sample(30, 1, PROGRAM, true); /* nothing is known of it */
    sample(40, 1, PROGRAM, false);
    drain_it();
    assert_int_equal(found.n, 4);
    expect(0, 10, 1, PROGRAM);
    expect(1, 20, 1, frame_kernel(KERNEL(2)));
    assert_int_equal(found.above[1], frame_kernel(KERNEL(1))); /* the call, not its return */
    expect(2, 30, 1, frame_pseudo(PSEUDO_KERNEL));
    assert_int_equal(found.above[2], PROGRAM);
    expect(3, 40, 1, PROGRAM);
}

static void ticks_share_the_weight(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 7; i++)
        tick(i, i <= 3 ? 2 : 3);
    sample(10, 7, PROGRAM, true);
    drain_it();
    assert_int_equal(found.n, 2);
    expect(0, 3, 3, frame_kernel(KERNEL(2)));
    expect(1, 10, 4, frame_kernel(KERNEL(3)));
}

static void ticks_of_lost_samples_are_not_taken(void **state)
{
    (void)state;
    tick(1, 2);
    tick(2, 3);
    tick(3, 4);
    sample(10, 1, PROGRAM, true);
    tick(11, 2);
    tick(12, 3);
    sample(20, 0, PROGRAM, true);
    drain_it();
    assert_int_equal(found.n, 2);
    expect(0, 10, 1, frame_kernel(KERNEL(4)));
    expect(1, 20, 0, frame_kernel(KERNEL(3)));
}

/* While its signal was blocked it was in the program, and in the kernel elsewhere before. */
static void ticks_before_one_in_the_program_are_of_another_stack(void **state)
{
    (void)state;
    tick(1, 2);
    tick(2, 0);
    tick(3, 3);
    tick(4, 3);
    sample(10, 4, PROGRAM, true);
    tick(11, 2);
    tick(12, 0);
    sample(20, 2, PROGRAM, false);
    drain_it();
    assert_int_equal(found.n, 2);
    expect(0, 10, 4, frame_kernel(KERNEL(3)));
    expect(1, 20, 2, PROGRAM);
}

static void processors_come_one_after_the_other(void **state)
{
    (void)state;
    tick(19, 2);
    tick(39, 4);
    tick(9, 1);
    tick(29, 3);
    for (uint64_t i = 1; i <= 4; i++)
        sample(10 * i, 1, PROGRAM, true);
    drain_it();
    for (uint64_t i = 1; i <= 4; i++)
        expect(i - 1, 10 * i, 1, frame_kernel(KERNEL(i)));
}

static void a_sample_waits_for_what_is_not_read_yet(void **state)
{
    (void)state;
    sample(10, 1, PROGRAM, true);
    sample(20, 1, PROGRAM, true);
    tick(9, 2);
    drain_samples_until(drain, 15);
    drain_it();
    assert_int_equal(found.n, 1);
    tick(19, 3);
    drain_samples_until(drain, 25);
    drain_it();
    assert_int_equal(found.n, 2);
    expect(1, 20, 1, frame_kernel(KERNEL(3)));
    sample(30, 1, PROGRAM, true);
    drain_it();
    assert_int_equal(found.n, 2);
    drain_samples_until(drain, UINT64_MAX);
    drain_it();
    assert_int_equal(found.n, 3);
}

static void nothing_stands_below_our_own_callback(void **state)
{
    (void)state;
    tick(9, 2);
    sample(10, 1, frame_pseudo(PSEUDO_PYHYBRID), true);
    sample(20, 1, frame_pseudo(PSEUDO_PYHYBRID), true);
    drain_it();
    expect(0, 10, 1, frame_pseudo(PSEUDO_PYHYBRID));
    expect(1, 20, 1, frame_pseudo(PSEUDO_PYHYBRID));
}

static void a_full_tree_keeps_the_sums(void **state)
{
    (void)state;
    for (uint64_t i = 1; i < 100; i++) {
        tick(10 * i - 1, i);
        sample(10 * i, 2, i & 1 ? PROGRAM : OTHER, i % 3);
    }
    drain_it();
    assert_int_equal(found.sum, 2 * 99);
}

static void any_ticks_leave_the_sums_as_they_are(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252ull, sum = 0, now = 1000;
    for (int i = 0; i < 500; i++) {
        for (uint64_t n = unit_random(&random) % 9; n--;)
            tick(now + unit_random(&random) % 3000, unit_random(&random) % 4);
        now += 1 + unit_random(&random) % 2000;
        uint32_t weight = (uint32_t)(unit_random(&random) % 6);
        sample(now, weight, i & 1 ? PROGRAM : OTHER, unit_random(&random) & 1);
        sum += weight;
        if (unit_random(&random) % 8 == 0) {
            drain_begin(drain);
            drain_thread(drain, thread, false);
            drain_end(drain);
        }
    }
    drain_it();
    assert_int_equal(found.sum, sum);
}

static void blocked_for_ever_takes_no_memory(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 300000; i++)
        tick(i, 2 + i % 2);
    sample(300001, 10, PROGRAM, true);
    drain_it();
    assert_int_equal(found.sum, 10);
    assert_int_equal(found.n, 10);
    expect(9, 300001, 1, frame_kernel(KERNEL(2)));
}

/* --- below a node of the exact half ---------------------------------------------------------------- */

#define OFFSET(word) ((word) & PYH_OFFSET_MASK)

static struct codes *codes;
static struct exact *exact;
static struct exact_thread *exact_thread;
static struct exact_node *outer, *between, *inner; /* two functions, and C between them */

/* A code object of that name, as the drain gets to know it through the thread's ring. */
static uint64_t code_object(uint64_t address, const char *name)
{
    struct code_record *r = ring_reserve(&thread->ring, CODE_RECORD_MAX);
    size_t length = strlen(name), bytes = sizeof *r + length;
    bool is_new;
    struct ring_record head = r->head;
    memset(r, 0, sizeof *r);
    r->head = head;
    r->qualname_bytes = (uint32_t)length;
    r->qualname_kind = r->file_name_kind = 1;
    memcpy(r->text, name, length);
    uint64_t id = codes_intern(codes, address, r, bytes, &is_new);
    assert_true(id && is_new);
    ring_commit(&thread->ring, r, bytes, RING_CODE);
    return id;
}

static struct exact_node *function(struct exact_node *parent, uint64_t id)
{
    return exact_child(exact, exact_thread, parent,
                       frame_function(id, codes_numbers(codes, id).function));
}

static uint32_t first_number(void *arg, struct exact_thread *t)
{
    (void)arg;
    (void)t;
    return 1;
}

static int set_up_exact(void **state)
{
    static struct py_layout layout;
    if (set_up(state))
        return -1;
    codes = codes_new();
    exact = exact_new(codes, &layout, 0, 1000);
    exact_thread = exact_add_thread(exact, "");
    outer = function(&exact_thread->root, code_object(0x1000, "outer"));
    between = exact_child(exact, exact_thread, outer, PROGRAM);
    inner = function(between, code_object(0x2000, "inner"));
    return drain_set_exact(drain, exact, 0, first_number, NULL);
}

static int tear_down_exact(void **state)
{
    tear_down(state);
    exact_free(exact);
    codes_free(codes);
    return 0;
}

/* A sample below `inner`, of whose two callers the last `n_notes` are noted anew. */
static void sample_below(uint64_t time_ns, uint32_t n_notes, uint64_t at_outer, uint64_t at_inner)
{
    const struct caller_note note[] = {
        {outer->id, at_outer ? frame_python(frame_code_id(outer->word), at_outer) : 0},
        {inner->id, at_inner ? frame_python(frame_code_id(inner->word), at_inner) : 0}};
    size_t bytes = sizeof(struct sample_record) + 8 + n_notes * sizeof *note;
    struct sample_record *r = ring_reserve(&thread->ring, bytes);
    struct ring_record head = r->head;
    *r = (struct sample_record){.head = head,
                                .time_ns = time_ns,
                                .weight = 1,
                                .n_words = 1,
                                .base_thread = exact_thread,
                                .base_node = inner->id,
                                .n_places = 2,
                                .n_notes = n_notes};
    r->words[0] = OTHER;
    memcpy(r->words + 1, note + 2 - n_notes, n_notes * sizeof *note);
    counter_add(&thread->counters.signals, 1);
    counter_add(&thread->counters.recorded, 1);
    counter_add(&thread->counters.recorded_weight, 1);
    ring_commit(&thread->ring, r, bytes, RING_SAMPLE);
}

/* The offsets in `outer` and `inner` on the path of sample `i`. */
static void expect_offsets(size_t i, uint64_t in_outer, uint64_t in_inner)
{
    assert_int_equal(found.word[i], OTHER);
    assert_int_equal(frame_tag(found.above[i]), PYH_TAG_PYTHON);
    assert_int_equal(OFFSET(found.above[i]), in_inner);
    uint32_t stack = found.parent[found.stack[i]]; /* inner, between, outer */
    stack = found.parent[found.parent[stack]];
    assert_int_equal(frame_tag(found.words[stack]), PYH_TAG_PYTHON);
    assert_int_equal(OFFSET(found.words[stack]), in_outer);
    assert_int_equal(found.parent[stack], 0);
}

static void callers_stay_where_they_were(void **state)
{
    (void)state;
    sample_below(10, 2, 3, 5);
    sample_below(20, 0, 0, 0);
    sample_below(30, 1, 0, 7);
    sample_below(40, 2, 4, 7);
    sample_below(50, 1, 0, 0); /* that one could not be read */
    sample_below(60, 2, 3, 5);
    drain_it();
    assert_int_equal(found.n, 6);
    expect_offsets(0, 3, 5);
    expect_offsets(1, 3, 5);
    expect_offsets(2, 3, 7);
    expect_offsets(3, 4, 7);
    expect_offsets(4, 4, PYH_OFFSET_UNKNOWN);
    expect_offsets(5, 3, 5);
    assert_int_equal(found.stack[0], found.stack[1]);
    assert_int_equal(found.stack[0], found.stack[5]);
}

/* Another code object has its id's place by then. */
static void a_code_object_that_is_gone_has_no_instruction(void **state)
{
    (void)state;
    uint64_t id = frame_code_id(inner->word);
    sample_below(10, 2, 3, 5);
    codes->numbers[id & (CODES_SLOTS - 1)] = 0;
    drain_it();
    expect_offsets(0, 3, PYH_OFFSET_UNKNOWN);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define EXACT_CASE(name) cmocka_unit_test_setup_teardown(name, set_up_exact, tear_down_exact)
    const struct CMUnitTest tests[] = {
        CASE(a_tick_gives_its_sample_a_place),
        CASE(ticks_share_the_weight),
        CASE(ticks_of_lost_samples_are_not_taken),
        CASE(ticks_before_one_in_the_program_are_of_another_stack),
        CASE(processors_come_one_after_the_other),
        CASE(a_sample_waits_for_what_is_not_read_yet),
        CASE(nothing_stands_below_our_own_callback),
        cmocka_unit_test_setup_teardown(a_full_tree_keeps_the_sums, set_up_small, tear_down),
        CASE(any_ticks_leave_the_sums_as_they_are),
        CASE(blocked_for_ever_takes_no_memory),
        EXACT_CASE(callers_stay_where_they_were),
        EXACT_CASE(a_code_object_that_is_gone_has_no_instruction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
