#include "unit.h"

#include "weight.h"

#define PERIOD 1001001

/* Gives out weights for `n` samples, each `spent(i)` after the last; all together, and the clock. */
static uint64_t given(int n, uint64_t (*spent)(int), uint64_t *clock_ns)
{
    int64_t carry = 0;
    uint64_t sum = 0;
    *clock_ns = 0;
    for (int i = 0; i < n; i++) {
        uint64_t ns = spent(i);
        *clock_ns += ns;
        sum += weight_take(&carry, ns, PERIOD);
        int64_t ahead = (int64_t)(sum * PERIOD) - (int64_t)*clock_ns;
        assert_int_equal(ahead, -carry);
        assert_in_range(ahead + PERIOD, PERIOD / 2 - 1, 2 * PERIOD);
    }
    return sum;
}

static uint64_t one_period(int i)
{
    (void)i;
    return PERIOD;
}

static uint64_t jitter(int i)
{
    static uint64_t state = 1;
    (void)i;
    return PERIOD - 200000 + unit_random(&state) % 400001;
}

static uint64_t stolen(int i)
{
    (void)i;
    return PERIOD * 96 / 100;
}

static uint64_t coalesced(int i)
{
    return i % 10 ? PERIOD : 7 * PERIOD + PERIOD * 3 / 4;
}

static uint64_t nothing(int i)
{
    (void)i;
    return 0;
}

static void a_sample_a_period(void **state)
{
    (void)state;
    int64_t carry = 0;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(weight_take(&carry, one_period(i), PERIOD), 1);
}

static void all_weights_are_within_a_period_of_the_clock(void **state)
{
    (void)state;
    uint64_t (*clocks[])(int) = {jitter, stolen, coalesced, nothing};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        uint64_t ns, sum = given(10000, clocks[i], &ns);
        assert_in_range(sum, ns / PERIOD, ns / PERIOD + 1);
    }
}

static void little_jitter_leaves_one_each(void **state)
{
    (void)state;
    int64_t carry = 0;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(weight_take(&carry, PERIOD + (i % 2 ? 20000 : -20000), PERIOD), 1);
}

/* What the handler does: the clock is read only where it can matter. */
struct sampled {
    int64_t carry;
    uint64_t read, n_unread, sum, n_looks;
};

static bool looks(struct sampled *t, uint64_t cpu, uint64_t since, uint64_t period)
{
    if (weight_is_one(since, period, t->carry, t->n_unread)) {
        t->carry -= (int64_t)period;
        t->n_unread++;
        t->sum++;
        return false;
    }
    t->sum += weight_take(&t->carry, cpu - t->read, period);
    t->read = cpu;
    t->n_unread = 0;
    t->n_looks++;
    return true;
}

/* Signals each `ran` of the thread's clock, all within 1.5 periods of the last by wall-clock time. */
static void given_with_looks(uint64_t period, uint64_t ran)
{
    uint64_t cpu = 0;
    struct sampled t = {0};
    for (int i = 0; i < 100000; i++) {
        cpu += ran;
        looks(&t, cpu, period, period);
        assert_in_range(t.sum + 2, cpu / period + 1, cpu / period + 2 + WEIGHT_UNREAD_MAX + 1);
    }
}

/* Its first stretch is short, as after a pause. */
static void a_short_beginning_is_forgotten(void **state)
{
    (void)state;
    struct sampled t = {0};
    uint64_t cpu = PERIOD * 3 / 10;
    for (int i = 0; i < 1600; i++, cpu += PERIOD)
        looks(&t, cpu, i ? PERIOD : 2 * PERIOD, PERIOD);
    assert_in_range(t.n_looks, 95, 110);
}

/* Two events on a thread, the period of another time, time that a hypervisor takes. */
static void signals_that_come_too_fast_do_not_count_more(void **state)
{
    (void)state;
    given_with_looks(PERIOD, PERIOD);
    given_with_looks(PERIOD, PERIOD * 9 / 10);
    given_with_looks(PERIOD, PERIOD / 2);
    given_with_looks(10 * PERIOD, PERIOD);
    given_with_looks(PERIOD, 0);
}

/* A thread that runs, waits and is kept from its processor, with a signal whenever the kernel thinks that it
 * ran for a period, or later.  With most samples not measured, the weights stay with its clock. */
static void what_is_not_measured_is_settled(void **state)
{
    (void)state;
    uint64_t random = 7, cpu = 0, n_ones = 0, unread_most = 0;
    struct sampled t = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t ran = jitter(i), waited = 0, kind = unit_random(&random) % 20;
        uint64_t n_unread = t.n_unread;
        if (kind == 0)
            waited = unit_random(&random) % (20 * PERIOD);
        else if (kind == 1)
            ran *= 1 + unit_random(&random) % 9;
        else if (kind == 2)
            ran = waited = PERIOD / 2; /* stolen */
        cpu += ran;
        if (!looks(&t, cpu, ran + waited, PERIOD)) {
            n_ones++;
            continue;
        }
        unread_most = n_unread > unread_most ? n_unread : unread_most;
        assert_in_range(t.sum + 16, cpu / PERIOD + 15, cpu / PERIOD + 32);
        assert_in_range(t.sum * PERIOD - cpu + t.carry, 0, 0);
    }
    assert_int_equal(unread_most, WEIGHT_UNREAD_MAX);
    assert_in_range(n_ones, 70000, 95000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_a_period),
        cmocka_unit_test(all_weights_are_within_a_period_of_the_clock),
        cmocka_unit_test(little_jitter_leaves_one_each),
        cmocka_unit_test(signals_that_come_too_fast_do_not_count_more),
        cmocka_unit_test(a_short_beginning_is_forgotten),
        cmocka_unit_test(what_is_not_measured_is_settled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
