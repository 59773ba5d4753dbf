/* Single calls: durations, which ones are kept, calls of several turns. */
#include "unit.h"

#include <string.h>

#include "kept_calls.h"

#define NO_CALLS {.max_kept = CALLS_MAX}

/* What waits: how many turns, for how many calls they stand; the longest goes to `longest`. */
static uint32_t read_all(struct calls *c, uint64_t *longest, uint64_t *stand_for)
{
    const unsigned char *turns;
    size_t bytes;
    uint32_t n = 0;
    while ((turns = block_queue_peek(&c->queue, &bytes))) {
        for (size_t at = 0; at < bytes; n++) {
            struct call_turn turn;
            memcpy(&turn, turns + at, sizeof turn);
            if (turn.until - turn.since > *longest)
                *longest = turn.until - turn.since;
            *stand_for += 1ull << turn.weight_bits;
            at += sizeof turn + ((turn.more + 7) & ~7u);
        }
        block_queue_release(&c->queue, bytes);
    }
    return n;
}

static bool ended(struct calls *c, struct open_calls *o, uint64_t since, uint64_t until)
{
    struct call_turn turn = {.since = since, .until = until, .node = 3, .flags = CALL_ENDED};
    return calls_turn(c, o, 0, &turn, NULL);
}

static void durations_are_counted(void **state)
{
    (void)state;
    struct calls c = {.n_left = 0};
    struct open_calls o = NO_CALLS;
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

/* Up to the bound all are there. */
static void all_are_kept(void **state)
{
    (void)state;
    struct calls c = {.n_left = 0};
    struct open_calls o = NO_CALLS;
    uint64_t longest = 0, stand_for = 0;
    for (uint32_t i = 0; i < CALLS_MAX; i++)
        assert_true(ended(&c, &o, 10ull * i, 10ull * i + i % 7));
    assert_int_equal(block_queue_waiting(&c.queue), 32ull * CALLS_MAX);
    assert_int_equal(read_all(&c, &longest, &stand_for), CALLS_MAX);
    assert_int_equal(stand_for, CALLS_MAX);
    assert_int_equal(block_queue_waiting(&c.queue), 0);
    calls_clear(&c);
    open_calls_clear(&o);
}

/* Beyond it a million are some thousand: the slowest, wherever it comes, and a sample that stands for them all. */
static void the_slowest_and_a_sample_are_kept(void **state)
{
    (void)state;
    enum { N = 1000000, BOUND = 1000 };
    for (int slow_one = 1; slow_one < N; slow_one = slow_one * 7 + 1) {
        struct calls c = {.n_left = 0};
        struct open_calls o = {.max_kept = BOUND};
        uint64_t seed = 1, longest = 0, kept = 0, stand_for = 0;
        for (int i = 0; i < N; i++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            ended(&c, &o, 0, i == slow_one ? 100000 : 1000 + (seed >> 33) % 10000);
            kept += read_all(&c, &longest, &stand_for);
        }
        assert_int_equal(longest, 100000);
        assert_true(kept >= BOUND + CALLS_AT_ONCE + CALLS_SAMPLED);
        assert_true(kept < BOUND + 10 * (CALLS_AT_ONCE + CALLS_SAMPLED));
        assert_true(stand_for > 0.9 * N && stand_for < 1.1 * N); /* its error is 2 % */
        assert_int_equal(c.first->n, N);
        assert_int_equal(c.n_lost, 0);
        calls_clear(&c);
        open_calls_clear(&o);
    }
}

/* Of calls with several turns each is there with all of them, or with none. */
static void calls_of_several_turns_are_sampled(void **state)
{
    (void)state;
    enum { N = 100000, BOUND = 1000 };
    struct calls c = {.n_left = 0};
    struct open_calls o = {.max_kept = BOUND};
    uint64_t longest = 0, stand_for = 0;
    uint32_t kept = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint32_t call = open_calls_begin(&o, i, false);
        struct call_turn first = {.since = i, .until = i, .node = 1};
        struct call_turn last = {.since = i, .until = i + 5, .node = 1, .flags = CALL_ENDED};
        bool is_kept = calls_turn(&c, &o, call, &first, NULL);
        assert_int_equal(calls_turn(&c, &o, call, &last, NULL), is_kept);
        assert_int_equal(first.flags, CALL_FIRST);
        assert_int_equal(last.flags, CALL_ENDED);
        assert_int_equal(first.serial, last.serial);
        kept += is_kept;
        open_calls_end(&o, call);
    }
    assert_int_equal(read_all(&c, &longest, &stand_for), 2 * kept);
    assert_true(kept > BOUND / 2 + 500 && kept < 5000);
    assert_true(stand_for > 2 * 0.8 * N && stand_for < 2 * 1.2 * N);
    assert_int_equal(c.first->n, N);
    calls_clear(&c);
    open_calls_clear(&o);
}

static void turns_are_one_call(void **state)
{
    (void)state;
    struct calls c = {.n_left = 0};
    struct open_calls o = NO_CALLS;
    uint64_t frame[2] = {0x1000, 0x2000}, longest = 0, stand_for = 0;
    uint32_t call[2];
    for (int i = 0; i < 2; i++) {
        call[i] = open_calls_begin(&o, 10 + (uint64_t)i, false);
        struct call_turn turn = {.since = 10 + (uint64_t)i, .until = 20, .node = 1};
        assert_true(calls_turn(&c, &o, call[i], &turn, NULL));
        open_calls_suspend(&o, call[i], frame[i]);
    }
    assert_int_equal(read_all(&c, &longest, &stand_for), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_calls_resume(&o, frame[i]), call[i]);
        assert_int_equal(open_calls_resume(&o, frame[i]), 0);
        struct call_turn turn = {.since = 90, .until = 110, .node = 1, .flags = CALL_ENDED};
        assert_true(calls_turn(&c, &o, call[i], &turn, NULL));
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
    struct open_calls o = NO_CALLS;
    uint32_t call = open_calls_begin(&o, 5, true);
    struct call_turn turn = {.since = 5, .until = 50, .node = 1, .flags = CALL_ENDED};
    assert_true(calls_turn(&c, &o, call, &turn, NULL));
    assert_true(turn.flags & CALL_PARTIAL);
    assert_null(c.first);
    calls_clear(&c);
    open_calls_clear(&o);
}

static void attributes_follow(void **state)
{
    (void)state;
    struct calls c = {.n_left = 0};
    struct open_calls o = NO_CALLS;
    unsigned char fields[] = "thirteen byte";
    uint64_t longest = 0, stand_for = 0;
    assert_true(ended(&c, &o, 1, 2));
    calls_attributes(&c, &o, 9, fields, 13);
    assert_true(ended(&c, &o, 3, 4));
    size_t bytes;
    const unsigned char *turns = block_queue_peek(&c.queue, &bytes);
    struct call_turn turn;
    memcpy(&turn, turns + sizeof turn, sizeof turn);
    assert_int_equal(turn.flags, CALL_ATTRIBUTES);
    assert_int_equal(turn.serial, 9);
    assert_int_equal(turn.more, 13);
    assert_memory_equal(turns + 2 * sizeof turn, fields, 13);
    assert_int_equal(bytes, 3 * sizeof turn + 16);
    assert_int_equal(read_all(&c, &longest, &stand_for), 3);
    calls_clear(&c);
    open_calls_clear(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_counted),
        cmocka_unit_test(all_are_kept),
        cmocka_unit_test(the_slowest_and_a_sample_are_kept),
        cmocka_unit_test(calls_of_several_turns_are_sampled),
        cmocka_unit_test(turns_are_one_call),
        cmocka_unit_test(a_partial_call_has_no_duration),
        cmocka_unit_test(attributes_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
