#include "unit.h"

#include "map.h"

static int set_up(void **state)
{
    static struct map map;
    map = (struct map){0};
    *state = &map;
    return 0;
}

static int tear_down(void **state)
{
    map_clear(*state);
    return 0;
}

static void an_empty_map_has_nothing(void **state)
{
    assert_null(map_get(*state, 1));
    map_clear(*state);
    assert_null(map_get(*state, 1));
}

static void a_new_value_is_zero_and_an_old_one_stays(void **state)
{
    uint64_t *value = map_put(*state, 42);
    assert_non_null(value);
    assert_int_equal(*value, 0);
    *value = 7;
    assert_ptr_equal(map_put(*state, 42), value);
    assert_ptr_equal(map_get(*state, 42), value);
    assert_int_equal(*value, 7);
    assert_null(map_get(*state, 43));
    assert_int_equal(((struct map *)*state)->n, 1);
}

static void small_values_become_zero(void **state)
{
    struct map *m = *state;
    map_zero_below(m, 10); /* empty */
    for (uint64_t i = 1; i <= 2000; i++)
        *map_put(m, i) = i;
    map_zero_below(m, 10);
    for (uint64_t i = 1; i <= 2000; i++)
        assert_int_equal(*map_get(m, i), i < 10 ? 0 : i);
    assert_int_equal(m->n, 2000);
}

static void all_is_kept_while_it_grows(void **state)
{
    struct map *m = *state;
    uint64_t random = 1;
    for (uint64_t i = 1; i <= 100000; i++)
        *map_put(m, unit_random(&random)) = i;
    assert_int_equal(m->n, 100000);
    assert_true(m->mask + 1 > m->n);
    random = 1;
    for (uint64_t i = 1; i <= 100000; i++) {
        uint64_t *value = map_get(m, unit_random(&random));
        assert_non_null(value);
        assert_int_equal(*value, i);
    }
    assert_null(map_get(m, unit_random(&random)));
}

/* Keys of one place in a table of 1024, the last of it: they are found around the end. */
static void keys_of_one_place_are_distinguished(void **state)
{
    struct map *m = *state;
    uint64_t keys[200], n = 0;
    for (uint64_t key = 1; n < 200; key++)
        if ((map_hash(key) & 1023) == 1023)
            keys[n++] = key;
    for (uint64_t i = 0; i < 199; i++)
        *map_put(m, keys[i]) = i;
    assert_int_equal(m->mask, 1023);
    for (uint64_t i = 0; i < 199; i++)
        assert_int_equal(*map_get(m, keys[i]), i);
    assert_null(map_get(m, keys[199]));
}

static void extreme_keys_are_keys(void **state)
{
    *map_put(*state, ~0ull) = 1;
    *map_put(*state, 1ull << 63) = 2;
    *map_put(*state, 1) = 3;
    assert_int_equal(*map_get(*state, ~0ull), 1);
    assert_int_equal(*map_get(*state, 1ull << 63), 2);
    assert_int_equal(*map_get(*state, 1), 3);
}

static void a_cleared_map_is_an_empty_one(void **state)
{
    struct map *m = *state;
    for (uint64_t i = 1; i <= 2000; i++)
        *map_put(m, i) = i;
    map_clear(m);
    assert_null(m->slots);
    assert_null(map_get(m, 1));
    assert_int_equal(*map_put(m, 1), 0);
    assert_int_equal(m->n, 1);
}

static void memory_is_zero(void **state)
{
    (void)state;
    unsigned char *p = map_memory(10000), any = 0;
    assert_non_null(p);
    for (int i = 0; i < 10000; i++)
        any |= p[i];
    assert_int_equal(any, 0);
    map_memory_free(p, 10000);
    map_memory_free(NULL, 10000);
    assert_null(map_memory(1ull << 60));
}

static void memory_grows_from_a_piece_of_something_larger(void **state)
{
    (void)state;
    uint32_t first[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *p = first;
    size_t bytes = sizeof first;
    assert_true(map_memory_grow(&p, &bytes, 8, sizeof *p));
    assert_ptr_equal(p, first);
    assert_true(map_memory_grow(&p, &bytes, 9, sizeof *p)); /* the piece stays, as it is */
    assert_ptr_not_equal(p, first);
    assert_int_equal(bytes, MAP_PAGE);
    assert_true(map_memory_grow(&p, &bytes, 2000, sizeof *p)); /* what is a mapping goes */
    assert_int_equal(bytes, 2 * MAP_PAGE);
    for (uint32_t i = 0; i < 2000; i++)
        assert_int_equal(p[i], i < 8 ? i + 1 : 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(first[i], i + 1);
    map_memory_free(p, bytes);
    p = NULL;
    bytes = 0;
    assert_true(map_memory_grow(&p, &bytes, 0, sizeof *p));
    assert_int_equal(bytes, MAP_PAGE);
    map_memory_free(p, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_map_has_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_value_is_zero_and_an_old_one_stays, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(small_values_become_zero, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_is_kept_while_it_grows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_of_one_place_are_distinguished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(extreme_keys_are_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cleared_map_is_an_empty_one, set_up, tear_down),
        cmocka_unit_test(memory_is_zero),
        cmocka_unit_test(memory_grows_from_a_piece_of_something_larger),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
