/* The event log: nothing is lost unrecorded. */
#include "unit.h"

#include "event_log.h"
#include "map.h"

static struct event_ring new_ring(uint64_t start)
{
    struct event_ring r = {.slot = map_memory(EVENT_SLOTS * sizeof *r.slot), .last = start};
    assert_non_null(r.slot);
    return r;
}

/* Reads all there is; the sum of all steps goes to `ticks`, of all gaps to `missing`. */
static uint32_t read_all(struct event_ring *r, uint64_t *ticks, uint64_t *missing)
{
    uint32_t n = 0, tail = r->tail;
    for (; tail != r->head; tail++) {
        uint64_t word = r->slot[tail & (EVENT_SLOTS - 1)];
        enum event_kind kind = word >> EVENT_KIND_SHIFT & 7;
        *ticks += (uint32_t)word;
        if (kind == EVENT_TIME)
            *ticks += word >> EVENT_VALUE_SHIFT << 32;
        else if (kind == EVENT_GAP)
            *missing += word >> EVENT_VALUE_SHIFT;
        else
            n++;
    }
    r->tail = tail;
    return n;
}

static void fields_come_back(void **state)
{
    (void)state;
    struct event_ring r = new_ring(1000);
    event_put(&r, EVENT_RAISE, EVENT_VALUE_MAX, 1000ull + UINT32_MAX);
    assert_int_equal(r.head, 1);
    assert_int_equal((uint32_t)r.slot[0], UINT32_MAX);
    assert_int_equal(r.slot[0] >> EVENT_KIND_SHIFT & 7, EVENT_RAISE);
    assert_int_equal(r.slot[0] >> EVENT_VALUE_SHIFT, EVENT_VALUE_MAX);
    map_memory_free(r.slot, EVENT_SLOTS * sizeof *r.slot);
}

static void times_of_any_size_add_up(void **state)
{
    (void)state;
    struct event_ring r = new_ring(5);
    uint64_t at[] = {5, 6, 1ull << 32, 3ull << 40, (3ull << 40) + 1, 1ull << 60};
    uint64_t ticks = 5, missing = 0;
    for (unsigned i = 0; i < sizeof at / sizeof *at; i++) {
        event_put(&r, EVENT_CALL, i, at[i]);
        assert_int_equal(read_all(&r, &ticks, &missing), 1);
        assert_int_equal(ticks, at[i]);
    }
    event_put(&r, EVENT_CALL, 0, 1ull << 59); /* a clock that is behind stands still */
    assert_int_equal(read_all(&r, &ticks, &missing), 1);
    assert_int_equal(ticks, 1ull << 60);
    assert_int_equal(missing, 0);
    map_memory_free(r.slot, EVENT_SLOTS * sizeof *r.slot);
}

static void what_a_full_ring_loses_is_counted(void **state)
{
    (void)state;
    struct event_ring r = new_ring(0);
    uint64_t ticks = 0, missing = 0, now = 0, read = 0;
    enum { ROUNDS = 5, EACH = EVENT_SLOTS + 1234 };
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++)
            event_put(&r, EVENT_CALL, 7, now += 3);
        read += read_all(&r, &ticks, &missing);
    }
    event_put(&r, EVENT_CALL, 7, now += 3);
    read += read_all(&r, &ticks, &missing);
    assert_int_equal(ticks, now);
    assert_true(missing > ROUNDS * 1000);
    assert_int_equal(read + missing, (uint64_t)ROUNDS * EACH + 1);
    map_memory_free(r.slot, EVENT_SLOTS * sizeof *r.slot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_come_back),
        cmocka_unit_test(times_of_any_size_add_up),
        cmocka_unit_test(what_a_full_ring_loses_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
