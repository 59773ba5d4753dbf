#include "unit.h"

#include "period_correction.h"

#define PERIOD 1001001
#define SECOND 1000000000ull

/* A thread that runs for a tenth of each second, by an event that sees `seen` of 1,000 parts of that, for
 * `seconds`.  Returns the signals for 1,000 periods of its CPU clock. */
static uint64_t rate(struct period_correction *p, uint64_t *cpu_ns, uint64_t *signals,
                     uint64_t seen, int seconds)
{
    uint64_t began = *signals, counted = 0;
    for (int i = 0; i < seconds; i++) {
        *cpu_ns += SECOND / 10;
        counted += SECOND / 10 * seen / 1000;
        uint64_t period = period_correction_apply(p, PERIOD), n = counted / period;
        *signals += n;
        counted -= n * period;
        if (period_correction_learn(p, *cpu_ns, *signals, PERIOD))
            counted = 0; /* the kernel begins the period anew */
    }
    return (*signals - began) * 1000 / ((uint64_t)seconds * SECOND / 10 / PERIOD);
}

static void what_is_missing_comes(void **state)
{
    (void)state;
    for (uint64_t seen = 960; seen < 1000; seen += 5) {
        struct period_correction p = {0};
        uint64_t cpu = 5 * SECOND, signals = 7;
        rate(&p, &cpu, &signals, seen, 10);
        assert_in_range(rate(&p, &cpu, &signals, seen, 100), 988, 1012);
    }
}

static void none_too_many_when_nothing_is_missing_any_more(void **state)
{
    (void)state;
    struct period_correction p = {0};
    uint64_t cpu = SECOND, signals = 0;
    rate(&p, &cpu, &signals, 960, 20);
    assert_in_range(p.shorter, 20, 60);
    rate(&p, &cpu, &signals, 1000, 20);
    assert_in_range(rate(&p, &cpu, &signals, 1000, 100), 988, 1012);
}

static void signals_that_are_blocked_are_not_made_up_for(void **state)
{
    (void)state;
    struct period_correction p = {0};
    uint64_t cpu = SECOND, signals = 0;
    rate(&p, &cpu, &signals, 500, 20);
    assert_int_equal(p.shorter, 0);
    assert_int_equal(period_correction_apply(&p, PERIOD), PERIOD);
}

static void a_little_shorter_at_most(void **state)
{
    (void)state;
    struct period_correction p = {0};
    uint64_t cpu = SECOND, signals = 0;
    for (int i = 0; i < 100; i++) { /* whatever the period: overflows that coalesce */
        cpu += SECOND;
        signals += SECOND / PERIOD * 95 / 100;
        period_correction_learn(&p, cpu, signals, PERIOD);
    }
    assert_in_range(period_correction_apply(&p, PERIOD), PERIOD * 15ull / 16 - 1,
                    PERIOD * 15ull / 16 + 1);
}

static void what_was_before_a_pause_teaches_nothing(void **state)
{
    (void)state;
    struct period_correction p = {0};
    uint64_t cpu = SECOND, signals = 0;
    period_correction_learn(&p, cpu, signals, PERIOD);
    period_correction_restart(&p);
    assert_false(
        period_correction_learn(&p, cpu + SECOND, signals + SECOND / PERIOD * 95 / 100, PERIOD));
    assert_int_equal(p.shorter, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_comes),
        cmocka_unit_test(none_too_many_when_nothing_is_missing_any_more),
        cmocka_unit_test(signals_that_are_blocked_are_not_made_up_for),
        cmocka_unit_test(a_little_shorter_at_most),
        cmocka_unit_test(what_was_before_a_pause_teaches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
