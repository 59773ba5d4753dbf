/* Which part of a stack can be read. */
#include "unit.h"

#include <sys/mman.h>

#include "memread.h"
#include "stack_bounds.h"

#define PAGE 4096ull

/* A fiber's stack of four pages, with `n_above` more above it, between pages that cannot be read. */
static uint64_t map_stack(size_t n_above)
{
    size_t n = 6 + n_above;
    char *low = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(low, MAP_FAILED);
    assert_int_equal(mprotect(low, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(low + (n - 1) * PAGE, PAGE, PROT_NONE), 0);
    return (uint64_t)low + PAGE;
}

static void test_own_stack(void **state)
{
    struct unwind u = {0};
    uint64_t sp = (uint64_t)__builtin_frame_address(0);
    (void)state;
    stack_bounds_update(&u, sp, sp + 16);
    assert_true(u.stack_low <= sp && sp < u.stack_high);
    assert_false(u.stack_is_foreign);
}

static void test_what_lies_above_a_foreign_stack_may_go(void **state)
{
    struct unwind u = {0};
    uint64_t stack = map_stack(8), top = stack + 4 * PAGE;
    (void)state;
    stack_bounds_update(&u, top - 128, 0);
    assert_true(u.stack_is_foreign);
    assert_int_equal(u.stack_high, top + 8 * PAGE);
    assert_int_equal(munmap((void *)top, 8 * PAGE), 0);
    stack_bounds_update(&u, top - 256, 0);
    assert_int_equal(u.stack_high, top);
    assert_true(u.stack_low <= top - 256);
}

static void test_back_on_the_own_stack(void **state)
{
    struct unwind u = {0};
    uint64_t stack = map_stack(0), sp = (uint64_t)__builtin_frame_address(0);
    (void)state;
    stack_bounds_update(&u, stack + 64, 0);
    assert_true(u.stack_is_foreign);
    stack_bounds_update(&u, sp, sp + 16);
    assert_false(u.stack_is_foreign);
    assert_true(u.stack_low <= sp && sp < u.stack_high);
}

static int set_up(void **state)
{
    (void)state;
    return memread_init();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_stack),
        cmocka_unit_test(test_what_lies_above_a_foreign_stack_may_go),
        cmocka_unit_test(test_back_on_the_own_stack),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
