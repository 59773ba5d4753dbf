/* Sums of work done later: by thread, session after session. */
#include "unit.h"

#include <pthread.h>

#include "backward_sums.h"

/* All that is read, by the node: calls, and ticks as a number that distinguishes them. */
static uint64_t read_all(uint32_t node, uint64_t *ticks)
{
    static struct backward_sum sum[LATER_BLOCK];
    uint64_t calls = 0;
    uint32_t n;
    *ticks = 0;
    for (uint32_t block = 0; backward_sums_read(block, sum, &n); block++)
        for (uint32_t i = 0; i < n; i++)
            if (sum[i].node == node) {
                calls += sum[i].calls;
                *ticks += sum[i].ticks;
            }
    return calls;
}

static void add(struct backward_sums *s, uint32_t session, uint32_t node, uint32_t name)
{
    struct maker origin = {.thread = 1, .node = node};
    backward_sums_add(s, session, &origin, name, 10);
}

static void calls_are_summed_by_node_and_name(void **state)
{
    (void)state;
    enum { N = 3 * LATER_BLOCK };
    struct backward_sums *s = backward_sums_take();
    uint64_t ticks;
    backward_sums_start(1);
    for (int round = 0; round < 3; round++)
        for (uint32_t node = 1; node <= N; node++)
            add(s, 1, node, 1 + (uint32_t)round % 2);
    for (uint32_t node = 1; node <= N; node++) {
        assert_int_equal(read_all(node, &ticks), 3);
        assert_int_equal(ticks, 30);
    }
    backward_sums_give(s);
}

static void a_session_has_its_own(void **state)
{
    (void)state;
    struct backward_sums *early = backward_sums_take(), *late = backward_sums_take();
    uint64_t ticks;
    backward_sums_start(2);
    add(early, 2, 7, 1);
    add(late, 2, 7, 1);
    assert_int_equal(read_all(7, &ticks), 2);
    backward_sums_forget(); /* the next one's drain reads before it begins */
    assert_int_equal(read_all(7, &ticks), 0);
    add(late, 2, 9, 1);
    assert_int_equal(read_all(9, &ticks), 0);
    backward_sums_start(3);
    assert_int_equal(read_all(7, &ticks), 0);
    add(early, 3, 7, 1);
    add(late, 2, 7, 1); /* it began in the session before */
    add(late, 2, 8, 1);
    assert_int_equal(read_all(7, &ticks), 1);
    assert_int_equal(read_all(8, &ticks), 0);
    add(late, 3, 8, 1);
    assert_int_equal(read_all(8, &ticks), 1);
    backward_sums_give(early);
    backward_sums_give(late);
}

#define THREADS 4
#define CALLS 20000

static void *work(void *own)
{
    struct backward_sums *s = backward_sums_take();
    for (uint32_t i = 0; i < CALLS; i++)
        add(s, 4, 1 + i % 1000, *(uint32_t *)own);
    backward_sums_give(s);
    return NULL;
}

static void threads_add_at_once(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    uint32_t name[THREADS];
    uint64_t ticks;
    backward_sums_start(4);
    for (uint32_t round = 0; round < 2;
         round++) { /* those of the second go on with the first one's */
        for (uint32_t i = 0; i < THREADS; i++) {
            name[i] = i;
            assert_int_equal(pthread_create(&thread[i], NULL, work, &name[i]), 0);
        }
        read_all(1, &ticks);
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        for (uint32_t node = 1; node <= 1000; node++) {
            assert_int_equal(read_all(node, &ticks), THREADS * CALLS / 1000 * (round + 1));
            assert_int_equal(ticks, 10 * THREADS * CALLS / 1000 * (round + 1));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_summed_by_node_and_name),
        cmocka_unit_test(a_session_has_its_own),
        cmocka_unit_test(threads_add_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
