#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "thread.h"

static const struct thread_limits limits = {
    .max_frames = 100, .ring_bytes = 4096, .ring_least_bytes = 4096};
static struct registry *registry;

static int set_up(void **state)
{
    (void)state;
    static struct registry r;
    memset(&r, 0, sizeof r);
    registry = &r;
    return registry_init(registry);
}

static int tear_down(void **state)
{
    (void)state;
    registry_free(registry);
    return 0;
}

static void a_record_is_found_by_its_tid(void **state)
{
    (void)state;
    assert_null(registry_find(registry, 10));
    struct thread *a = registry_add(registry, 10, 1, &limits);
    struct thread *b = registry_add(registry, 11, 2, &limits);
    assert_true(a && b && a != b);
    assert_ptr_equal(registry_find(registry, 10), a);
    assert_ptr_equal(registry_find(registry, 11), b);
    assert_null(registry_find(registry, 12));
    assert_int_equal(a->tid, 10);
    assert_int_equal(a->index, 1);
    assert_false(a->has_event);
}

static void a_removed_record_is_not_found_and_its_place_is_used_again(void **state)
{
    (void)state;
    struct thread *a = registry_add(registry, 10, 1, &limits);
    struct thread *b = registry_add(registry, 11, 2, &limits);
    registry_remove(registry, a);
    assert_null(registry_find(registry, 10));
    assert_ptr_equal(registry_find(registry, 11), b);
    struct thread *c = registry_add(registry, 10, 3, &limits);
    assert_ptr_equal(registry_find(registry, 10), c);
    assert_int_equal(c->index, 3);
    assert_int_equal(registry->n, 2);
}

static void there_is_no_end_to_threads(void **state)
{
    (void)state;
    enum { N = 20000 };
    for (pid_t tid = 1; tid <= N; tid++)
        assert_non_null(registry_add(registry, TIDS_MAX - tid, (uint32_t)tid, &limits));
    for (pid_t tid = 1; tid <= N; tid += 2)
        registry_remove(registry, registry_find(registry, TIDS_MAX - tid));
    for (pid_t tid = 1; tid <= N / 2; tid++)
        assert_non_null(registry_add(registry, tid, N + (uint32_t)tid, &limits));
    assert_int_equal(registry->n, N); /* the places of those that ended */
    uint64_t n = 0, sum = 0;
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(registry, &at)); n++)
        sum += t->index;
    assert_int_equal(n, N);
    assert_int_equal(sum, (2ull + N) * (N / 2) / 2 + (N + 1ull + N + N / 2) * (N / 2) / 2);
    assert_null(registry_add(registry, TIDS_MAX, 1, &limits));
    assert_null(registry_find(registry, TIDS_MAX));
}

static void rings_of_many_threads_are_small(void **state)
{
    (void)state;
    const struct thread_limits large = {
        .max_frames = 100, .ring_bytes = 2u << 20, .ring_least_bytes = RING_SMALL};
    for (pid_t tid = 1; tid <= 100; tid++)
        assert_non_null(registry_add(registry, tid, 1, &large));
    const struct thread *first = registry_find(registry, 1), *last = registry_find(registry, 100);
    assert_int_equal(first->limits.ring_bytes, 2u << 20);
    assert_int_equal(first->ring.mask, (2u << 20) - 1);
    assert_int_equal(last->limits.ring_bytes, RING_SMALL);
    assert_int_equal(last->ring.mask, RING_SMALL - 1);
    assert_true(last->mapping_bytes < 2u << 20);
    assert_int_equal(registry_add(registry, 101, 1, &limits)->limits.ring_bytes, 4096);
}

struct piece {
    const void *at;
    size_t size;
};

#define ROOM(r)                                                                                    \
    {(r).native, (r).max_frames * sizeof *(r).native},                                             \
        {(r).frames, (r).max_frames * sizeof *(r).frames},                                         \
        {(r).entries, (r).max_entries * sizeof *(r).entries},                                      \
        {(r).anchors, (r).max_entries * sizeof *(r).anchors},                                      \
        {(r).python, (r).max_frames * sizeof *(r).python},                                         \
    {                                                                                              \
        (r).words, (r).max_frames * sizeof *(r).words                                              \
    }

/* All that the handler writes to lies in the record's mapping, zeroed, aligned, none of it shared. */
static void the_pieces_of_a_record_do_not_overlap(void **state)
{
    (void)state;
    struct thread *t = registry_add(registry, 10, 1, &limits);
    const struct piece pieces[] = {
        {t, sizeof *t},
        ROOM(t->room),
        {t->ring.data, limits.ring_bytes},
        ROOM(t->full_room),
    };
    enum { N = sizeof pieces / sizeof *pieces };
    const unsigned char *low = (void *)t, *high = low + t->mapping_bytes;
    assert_int_equal(t->full_room.max_frames, limits.max_frames);
    assert_in_range(t->room.max_frames, 1, limits.max_frames);
    assert_int_equal(t->chain.max_frames, t->room.max_frames);
    assert_ptr_equal(t->chain.frames, t->room.frames);
    assert_int_equal(t->ring.mask, limits.ring_bytes - 1);
    for (size_t i = 0; i < N; i++) {
        const unsigned char *p = pieces[i].at, *end = p + pieces[i].size;
        assert_true(p >= low && end <= high && (uintptr_t)p % 8 == 0);
        for (size_t k = 0; k < i; k++) {
            const unsigned char *other = pieces[k].at;
            assert_true(end <= other || p >= other + pieces[k].size);
        }
        for (const unsigned char *byte = p; i && byte < end; byte++)
            assert_int_equal(*byte, 0);
    }
}

/* Threads look for themselves while others come and go, as handlers do beside the drain. */

#define N_THREADS 4

static pid_t tids[N_THREADS];
static _Atomic int n_ready, n_wrong;
static _Atomic bool go, stop;

static void *look_for_myself(void *arg)
{
    size_t i = (size_t)arg;
    tids[i] = (pid_t)syscall(SYS_gettid);
    n_ready++;
    while (!go)
        ;
    do {
        struct thread *t = registry_find(registry, tids[i]);
        if (!t || t->tid != tids[i])
            n_wrong++;
        else
            counter_add(&t->counters.signals, 1);
    } while (!stop); /* at least once, however busy the machine is */
    return NULL;
}

static void a_thread_finds_itself_while_others_come_and_go(void **state)
{
    (void)state;
    pthread_t threads[N_THREADS];
    n_ready = n_wrong = 0;
    go = stop = false;
    for (size_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_for_myself, (void *)i), 0);
    while (n_ready < N_THREADS)
        usleep(100);
    struct thread *others[8];
    for (int k = 0; k < 8; k++)
        others[k] = registry_add(registry, 1 << 21 | k, 1, &limits);
    for (size_t i = 0; i < N_THREADS; i++)
        assert_non_null(registry_add(registry, tids[i], (uint32_t)i, &limits));
    go = true;
    for (int i = 0; i < 3000; i++) {
        registry_remove(registry, others[i % 8]);
        others[i % 8] = registry_add(registry, 1 << 21 | i, 1, &limits);
    }
    stop = true;
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(n_wrong, 0);
    for (size_t i = 0; i < N_THREADS; i++)
        assert_true(counter_get(&registry_find(registry, tids[i])->counters.signals) > 0);
}

static void a_claimed_record_is_numbered_later(void **state)
{
    (void)state;
    uint32_t at = 0;
    assert_null(registry_claim(registry, 10)); /* nothing in stock */
    registry_stock(registry, &limits);
    struct thread *t = registry_claim(registry, 10);
    assert_non_null(t);
    assert_ptr_equal(registry_find(registry, 10), t);
    assert_string_equal(t->comm, "test_thread");
    assert_null(registry_next(registry, &at));
    assert_ptr_equal(registry_take_claimed(registry), t);
    assert_null(registry_take_claimed(registry));
    registry_keep_claimed(registry, t);
    assert_ptr_equal(registry_take_claimed(registry), t);
    assert_ptr_equal(registry_add(registry, 10, 3, &limits), t);
    assert_int_equal(t->index, 3);
    at = 0;
    assert_ptr_equal(registry_next(registry, &at), t);
    assert_null(registry_next(registry, &at));
    for (pid_t tid = 11; tid < 10 + THREADS_STOCK; tid++)
        assert_non_null(registry_claim(registry, tid));
    assert_null(registry_claim(registry, 10 + THREADS_STOCK));
}

#define N_CLAIMS 2000

static _Atomic uint64_t n_claimed;

static void *claim(void *unused)
{
    (void)unused;
    uint64_t random = 1;
    while (!stop) { /* may fail: nothing is in stock */
        n_claimed += registry_claim(registry, 1 + (pid_t)(unit_random(&random) % N_CLAIMS)) != NULL;
    }
    return NULL;
}

static void a_thread_has_one_record_whoever_makes_it(void **state)
{
    (void)state;
    static unsigned char n_of[N_CLAIMS + 1];
    pthread_t thread;
    stop = false;
    registry_stock(registry, &limits);
    assert_int_equal(pthread_create(&thread, NULL, claim, NULL), 0);
    while (!n_claimed)
        usleep(100);
    for (pid_t tid = 1; tid <= N_CLAIMS; tid++) {
        if (tid % 16 == 0)
            registry_stock(registry, &limits);
        assert_non_null(registry_add(registry, tid, (uint32_t)tid, &limits));
    }
    stop = true;
    pthread_join(thread, NULL);
    assert_null(registry_take_claimed(registry));
    uint32_t at = 0;
    for (struct thread *t; (t = registry_next(registry, &at));) {
        assert_int_equal(t->index, t->tid);
        assert_int_equal(n_of[t->tid]++, 0);
    }
    for (pid_t tid = 1; tid <= N_CLAIMS; tid++)
        assert_int_equal(n_of[tid], 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_record_is_found_by_its_tid),
        CASE(a_removed_record_is_not_found_and_its_place_is_used_again),
        CASE(there_is_no_end_to_threads),
        CASE(rings_of_many_threads_are_small),
        CASE(the_pieces_of_a_record_do_not_overlap),
        CASE(a_thread_finds_itself_while_others_come_and_go),
        CASE(a_claimed_record_is_numbered_later),
        CASE(a_thread_has_one_record_whoever_makes_it),
    };
    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
