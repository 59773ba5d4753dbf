#include "unit.h"

#include <sys/resource.h>

#include "stacks.h"
#include "frame.h"

static struct stacks tree;

static void make(uint32_t max)
{
    assert_int_equal(stacks_init(&tree, max), 0);
}

static int tear_down(void **state)
{
    (void)state;
    stacks_free(&tree);
    return 0;
}

/* The child, which must not meet the bound. */
static uint32_t child(uint32_t parent, uint64_t word)
{
    int full = -1;
    uint32_t id = stacks_child(&tree, parent, word, &full);
    assert_int_equal(full, 0);
    return id;
}

/* What holds in every tree. */
static void check_tree(void)
{
    assert_true(tree.n <= tree.capacity);
    for (uint32_t id = 1; id <= tree.n; id++)
        assert_true(tree.parent[id] < id);
}

static void ids_count_from_one(void **state)
{
    (void)state;
    make(100);
    assert_int_equal(child(0, 10), 1);
    assert_int_equal(child(1, 10), 2);
    assert_int_equal(child(0, 11), 3);
    assert_int_equal(tree.n, 3);
    check_tree();
}

static void the_same_path_is_the_same_node(void **state)
{
    (void)state;
    make(100);
    uint32_t a = child(0, 10), b = child(a, 20);
    assert_int_equal(child(0, 10), a);
    assert_int_equal(child(a, 20), b);
    assert_int_equal(tree.parent[b], a);
    assert_int_equal(tree.word[b], 20);
    assert_int_equal(tree.n, 2);
}

static void words_are_distinguished_by_parent_and_parents_by_word(void **state)
{
    (void)state;
    make(100);
    uint32_t a = child(0, 1), b = child(0, 2);
    assert_int_not_equal(child(a, 3), child(b, 3));
    assert_int_not_equal(child(a, 1), a);
    assert_int_not_equal(child(a, 0), a);
    assert_int_equal(tree.n, 6);
    check_tree();
}

static void many_parents_have_children_of_the_same_words(void **state)
{
    (void)state;
    make(100000);
    for (uint32_t parent = 1; parent <= 20000; parent++)
        assert_int_equal(child(0, parent), parent);
    for (uint64_t word = 1; word <= 3; word++)
        for (uint32_t parent = 1; parent <= 20000; parent++) {
            uint32_t id = child(parent, word);
            assert_int_equal(id, tree.n);
            assert_int_equal(tree.parent[id], parent);
        }
    assert_int_equal(tree.n, 80000);
    check_tree();
}

static void it_grows_and_keeps_every_identity(void **state)
{
    (void)state;
    make(200000);
    uint32_t before = tree.mask;
    uint64_t random = 1;
    for (uint32_t i = 0; i < 100000; i++) {
        uint64_t parent = unit_random(&random) % (i + 1);
        assert_int_equal(child((uint32_t)parent, 1000 + i), i + 1);
    }
    assert_true(tree.mask > before);
    for (uint32_t id = 1; id <= tree.n; id++)
        assert_int_equal(child(tree.parent[id], tree.word[id]), id);
    assert_int_equal(tree.n, 100000);
    check_tree();
}

static void at_the_bound_a_path_ends_in_tree_full(void **state)
{
    (void)state;
    make(3);
    uint32_t a = child(0, 1), b = child(a, 2), c = child(b, 3);
    int full = 0;
    uint32_t d = stacks_child(&tree, c, 4, &full);
    assert_int_equal(full, 1);
    assert_int_equal(tree.parent[d], c);
    assert_int_equal(tree.word[d], frame_pseudo(PSEUDO_TREE_FULL));
    assert_int_equal(tree.n_full, 1);
    full = 0;
    assert_int_equal(stacks_child(&tree, c, 5, &full), d);
    assert_int_equal(full, 1);
    assert_int_equal(tree.n_full, 2);
    assert_int_equal(child(b, 3), c); /* what exists is still found */
    assert_int_equal(tree.n_full, 2);
    assert_int_equal(tree.n, 4);
    check_tree();
}

/* Walks `n_paths` paths of random words, up to 6 deep, as the drain does; returns how many met the
 * bound.  Every path must end in a node that exists. */
static uint32_t walk_paths(uint32_t n_paths, uint32_t *hits)
{
    uint64_t random = 9;
    uint32_t n_full = 0;
    for (uint32_t i = 0; i < n_paths; i++) {
        uint32_t id = 0;
        int full = 0;
        for (uint64_t depth = unit_random(&random) % 6 + 1; depth && !full; depth--)
            id = stacks_child(&tree, id, unit_random(&random) % 50, &full);
        assert_in_range(id, 1, tree.n);
        if (full)
            assert_int_equal(tree.word[id], frame_pseudo(PSEUDO_TREE_FULL));
        hits[id]++;
        n_full += (uint32_t)full;
    }
    return n_full;
}

static void totals_are_kept_beyond_the_bound(void **state)
{
    (void)state;
    /* 3069 and 4095: about where its first hash table is full. */
    static const uint32_t bounds[] = {1, 2, 16, 100, 3068, 3069, 3070, 4095, 4096, 6141};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        static uint32_t hits[8192];
        uint32_t total = 0, n_paths = 60000;
        for (size_t id = 0; id < 8192; id++)
            hits[id] = 0;
        make(bounds[i]);
        uint32_t n_full = walk_paths(n_paths, hits);
        assert_true(n_full > 0);
        assert_int_equal(tree.n_full, n_full);
        for (uint32_t id = 1; id <= tree.n; id++)
            total += hits[id];
        assert_int_equal(total, n_paths);
        assert_int_equal(hits[0], 0);
        /* Random paths meet more ends than the extra eighth holds: it is used up (its last place
         * only where the root has no [tree full] yet). */
        assert_true(tree.n >= tree.capacity - 1);
        check_tree();
        stacks_free(&tree);
    }
}

static void memory_may_be_refused_for_ever(void **state)
{
    (void)state;
    make(1000000);
    struct rlimit before, none;
    getrlimit(RLIMIT_AS, &before);
    none = (struct rlimit){1 << 20, before.rlim_max};
    setrlimit(RLIMIT_AS, &none);
    uint32_t n_full = 0;
    int full;
    for (uint64_t word = 1; word <= 20000; word++) {
        stacks_child(&tree, word > 200 ? (uint32_t)word % 100 : 0, word, &full);
        n_full += (uint32_t)full;
    }
    setrlimit(RLIMIT_AS, &before);
    assert_true(n_full > 10000);
    assert_int_equal(tree.n_full, n_full);
    check_tree();
}

static void the_last_place_is_under_the_root(void **state)
{
    (void)state;
    make(16);
    int full;
    for (uint64_t word = 1; word <= 16; word++)
        child(0, word);
    uint32_t n_extra = tree.capacity - 16, last = 0;
    for (uint32_t id = 1; id <= 16; id++) {
        last = stacks_child(&tree, id, 99, &full);
        assert_int_equal(full, 1);
        assert_int_equal(tree.parent[last], id < n_extra ? id : 0);
    }
    assert_int_equal(last, tree.capacity);
    assert_int_equal(stacks_child(&tree, 0, 99, &full), last);
    assert_int_equal(stacks_child(&tree, 1, 99, &full), 17);
    assert_int_equal(tree.n, tree.capacity);
    check_tree();
}

static void a_freed_tree_may_be_freed_again(void **state)
{
    (void)state;
    make(10);
    stacks_free(&tree);
    stacks_free(&tree);
    assert_null(tree.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ids_count_from_one, tear_down),
        cmocka_unit_test_teardown(the_same_path_is_the_same_node, tear_down),
        cmocka_unit_test_teardown(words_are_distinguished_by_parent_and_parents_by_word, tear_down),
        cmocka_unit_test_teardown(many_parents_have_children_of_the_same_words, tear_down),
        cmocka_unit_test_teardown(it_grows_and_keeps_every_identity, tear_down),
        cmocka_unit_test_teardown(at_the_bound_a_path_ends_in_tree_full, tear_down),
        cmocka_unit_test_teardown(totals_are_kept_beyond_the_bound, tear_down),
        cmocka_unit_test_teardown(the_last_place_is_under_the_root, tear_down),
        cmocka_unit_test_teardown(memory_may_be_refused_for_ever, tear_down),
        cmocka_unit_test_teardown(a_freed_tree_may_be_freed_again, tear_down),
    };
    return cmocka_run_group_tests_name("calltree", tests, NULL, NULL);
}
