/* Single calls: durations, which ones are kept, calls of several turns. */
#include "unit.h"

#include "kept_calls.h"

/* The records that wait; the longest turn among them goes to `longest`. */
static uint32_t read_all(struct calls *c, uint64_t *longest)
{
    const struct ring_record *r;
    uint32_t n = 0;
    while (c->ring.data && (r = ring_peek(&c->ring))) {
        const struct call_turn *turn = (const struct call_turn *)r;
        if (turn->until - turn->begin > *longest)
            *longest = turn->until - turn->begin;
        ring_release(&c->ring, r);
        n++;
    }
    return n;
}

static bool ended(struct calls *c, struct open_calls *o, uint64_t since, uint64_t until)
{
    struct call_turn turn = {.since = since, .until = until, .node = 3, .flags = CALL_ENDED};
    return calls_turn(c, o, 0, &turn);
}

static void durations_are_counted(void **state)
{
    (void)state;
    struct calls c = {.n_left = 0};
    struct open_calls o = {.n = 0};
    uint64_t ticks[] = {0, 1, 63, 64, 71, 72, 127, 128, 1000, 1000, 1ull << 50}, sum = 0;
    uint32_t bucket[] = {0, 0, 0, 0, 0, 1, 7, 8, 31, 31, CALLS_BUCKETS - 1};
    enum { N = sizeof ticks / sizeof *ticks };
    for (int i = 0; i < N; i++) {
        assert_true(ended(&c, &o, 100, 100 + ticks[i]));
        sum += ticks[i];
    }
    const struct call_times *t = c.first;
    assert_null(t->next);
    assert_int_equal(t->node, 3);
    assert_int_equal(t->n, N);
    assert_int_equal(t->sum, sum);
    assert_int_equal(t->max, 1ull << 50);
    uint32_t expected[CALLS_BUCKETS] = {0};
    for (int i = 0; i < N; i++)
        expected[bucket[i]]++;
    for (int i = 0; i < CALLS_BUCKETS; i++)
        assert_int_equal(t->bucket[i], expected[i]);
    calls_clear(&c);
    open_calls_clear(&o);
}

/* A million calls are a few thousand records, and the slowest is among them wherever it comes. */
static void the_slowest_are_kept(void **state)
{
    (void)state;
    enum { N = 1000000 };
    for (int slow_one = 1; slow_one < N; slow_one = slow_one * 7 + 1) {
        struct calls c = {.n_left = 0};
        struct open_calls o = {.n = 0};
        uint64_t seed = 1, longest = 0, kept = 0;
        for (int i = 0; i < N; i++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            ended(&c, &o, 0, i == slow_one ? 100000 : 1000 + (seed >> 33) % 10000);
            kept += read_all(&c, &longest);
        }
        assert_int_equal(longest, 100000);
        assert_true(kept >= CALLS_AT_ONCE && kept < 10 * CALLS_AT_ONCE);
        assert_int_equal(c.first->n, N);
        assert_int_equal(c.n_lost, 0);
        calls_clear(&c);
        open_calls_clear(&o);
    }
}

static void turns_are_one_call(void **state)
{
    (void)state;
    struct calls c = {.n_left = 0};
    struct open_calls o = {.n = 0};
    uint64_t frame[2] = {0x1000, 0x2000}, longest = 0;
    uint32_t call[2];
    for (int i = 0; i < 2; i++) {
        call[i] = open_calls_begin(&o, 10 + (uint64_t)i, false);
        struct call_turn turn = {.since = 10 + (uint64_t)i, .until = 20, .node = 1};
        assert_true(calls_turn(&c, &o, call[i], &turn));
        open_calls_suspend(&o, call[i], frame[i]);
    }
    assert_int_equal(read_all(&c, &longest), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_calls_resume(&o, frame[i]), call[i]);
        assert_int_equal(open_calls_resume(&o, frame[i]), 0);
        struct call_turn turn = {.since = 90, .until = 110, .node = 1, .flags = CALL_ENDED};
        assert_true(calls_turn(&c, &o, call[i], &turn));
        assert_int_equal(turn.begin, 10 + i);
        assert_int_equal(turn.serial, i + 1);
        open_calls_end(&o, call[i]);
    }
    assert_int_equal(c.first->n, 2);
    assert_int_equal(c.first->sum, 100 + 99);
    assert_int_equal(open_calls_begin(&o, 0, false), call[1]); /* memory is used again */
    calls_clear(&c);
    open_calls_clear(&o);
}

static void a_partial_call_has_no_duration(void **state)
{
    (void)state;
    struct calls c = {.n_left = 0};
    struct open_calls o = {.n = 0};
    uint32_t call = open_calls_begin(&o, 5, true);
    struct call_turn turn = {.since = 5, .until = 50, .node = 1, .flags = CALL_ENDED};
    assert_true(calls_turn(&c, &o, call, &turn));
    assert_true(turn.flags & CALL_PARTIAL);
    assert_null(c.first);
    calls_clear(&c);
    open_calls_clear(&o);
}

static void a_full_ring_is_counted(void **state)
{
    (void)state;
    struct calls c = {.n_left = 0};
    struct open_calls o = {.n = 0};
    uint32_t kept = 0;
    uint64_t longest = 0;
    enum { N = 2 * CALLS_RING / sizeof(struct call_turn) };
    for (unsigned i = 0; i < N; i++) { /* each slower than all before */
        struct call_turn turn = {
            .since = 0, .until = 100 * i, .node = i % 100, .flags = CALL_ENDED};
        kept += calls_turn(&c, &o, 0, &turn);
    }
    assert_int_equal(kept + c.n_lost, N);
    assert_true(c.n_lost > 0);
    assert_int_equal(read_all(&c, &longest), kept);
    calls_clear(&c);
    open_calls_clear(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_counted),  cmocka_unit_test(the_slowest_are_kept),
        cmocka_unit_test(turns_are_one_call),     cmocka_unit_test(a_partial_call_has_no_duration),
        cmocka_unit_test(a_full_ring_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
