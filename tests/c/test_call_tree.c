/* The exact half's trees and its queue of code objects. */
#include "unit.h"

#include <string.h>

#include "call_tree.h"
#include "records.h"

static uint64_t nameless; /* bits of an address */
static uint64_t line_table;

/* Stands for the interpreter: a code object's name is its address. */
size_t code_record_fill(struct code_record *r, uint64_t code, memread_way *read)
{
    (void)read;
    uint64_t name = code & ~nameless;
    size_t length = 8 + name % 3000;
    memset(r, 0, sizeof *r + length);
    memcpy(r->text, &name, sizeof name);
    r->qualname_bytes = (uint32_t)length;
    memcpy(r->text + length, &line_table, sizeof line_table);
    r->line_table_bytes = sizeof line_table;
    return sizeof *r + length + sizeof line_table;
}

static struct exact *new_session(uint32_t max_nodes)
{
    static struct py_layout layout;
    struct codes *codes = codes_new();
    assert_non_null(codes);
    struct exact *x = exact_new(codes, &layout, 0, max_nodes);
    assert_non_null(x);
    return x;
}

static void free_session(struct exact *x)
{
    struct codes *codes = x->codes;
    exact_free(x);
    codes_free(codes);
}

static void children_are_found_again(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct exact *x = new_session(2 * N);
    struct exact_thread *t = exact_add_thread(x, "");
    static struct exact_node *nodes[N];
    nodes[0] = &t->root;
    uint64_t seed = 1;
    for (int i = 1; i < N; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        struct exact_node *parent = nodes[(seed >> 33) % (uint64_t)i];
        nodes[i] = exact_child(x, t, parent, frame_native(0x1000 + (uint64_t)i));
        assert_int_equal(nodes[i]->parent, parent->id);
        assert_true(nodes[i]->id > parent->id);
        assert_ptr_equal(exact_child(x, t, parent, nodes[i]->word), nodes[i]);
    }
    assert_int_equal(t->n, N - 1);
    for (int i = 1; i < N; i++) {
        assert_ptr_equal(exact_read_node(t, nodes[i]->id), nodes[i]);
        assert_int_equal(nodes[i]->word, frame_native(0x1000 + (uint64_t)i));
    }
    free_session(x);
}

static void a_full_tree_stands_for_what_it_has_no_room_for(void **state)
{
    (void)state;
    struct exact *x = new_session(10);
    struct exact_thread *t = exact_add_thread(x, "");
    struct exact_node *n = &t->root;
    for (uint64_t i = 0; i < 10; i++)
        n = exact_child(x, t, n, frame_native(0x1000 + i));
    struct exact_node *full = exact_child(x, t, n, frame_native(1));
    assert_true(exact_is_full(full));
    assert_ptr_equal(exact_child(x, t, n, frame_native(2)), full);
    assert_ptr_equal(exact_child(x, t, full, frame_native(3)), full);
    /* At last there is no room even for that. */
    uint32_t before;
    struct exact_node *at = &t->root;
    for (uint64_t i = 0; i < 10; i++) {
        before = t->n;
        at = (struct exact_node *)exact_read_node(t, (uint32_t)i + 1);
        exact_child(x, t, at, frame_native(2));
    }
    assert_int_equal(t->n, before);
    assert_ptr_equal(exact_child(x, t, at, frame_native(2)), full);
    assert_true(t->n <= 10 + 10 / 8 + 2);
    free_session(x);
}

static void code_objects_arrive_once_and_in_order(void **state)
{
    (void)state;
    enum { N = 20000 };
    struct exact *x = new_session(N);
    struct exact_thread *t = exact_add_thread(x, "");
    uint64_t read = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t code = 0x100000 + 64 * i;
        struct exact_node *n = exact_python_child(x, t, &t->root, code, 0);
        assert_ptr_equal(exact_python_child(x, t, &t->root, code, 0), n);
        assert_true(codes_holds(x->codes, frame_code_id(n->word), code));
        if (i % 1000 != 999)
            continue;
        for (const struct code_record *r; (r = exact_read_code(x)); read++) {
            uint64_t name;
            memcpy(&name, r->text, sizeof name);
            assert_int_equal(name, 0x100000 + 64 * read);
            struct code_numbers numbers = codes_numbers(x->codes, codes_find(x->codes, name));
            assert_int_equal(r->number, numbers.number);
            assert_int_equal(r->function, numbers.function);
        }
        assert_int_equal(read, i + 1);
    }
    free_session(x);
}

static void a_new_object_at_an_old_address_is_another_function(void **state)
{
    (void)state;
    struct exact *x = new_session(100);
    struct exact_thread *t = exact_add_thread(x, "");
    struct exact_node *before = exact_python_child(x, t, &t->root, 0x4000, 0);
    codes_forget(x->codes, 0x4000);
    assert_false(codes_holds(x->codes, frame_code_id(before->word), 0x4000));
    nameless = 0x4000;
    struct exact_node *after = exact_python_child(x, t, &t->root, 0x4000, 0);
    nameless = 0;
    assert_ptr_not_equal(before, after);
    assert_int_not_equal(before->word, after->word);
    assert_false(exact_is_of(x, before, 0x4000));
    assert_true(exact_is_of(x, after, 0x4000));
    free_session(x);
}

/* Made by exec again and again, at places that are free: perhaps with other line tables. */
static void equal_code_objects_are_one_function(void **state)
{
    (void)state;
    enum { N = 100000, PLACES = 64, TABLES = 3 };
    struct exact *x = new_session(10);
    struct exact_thread *t = exact_add_thread(x, "");
    uint32_t n_records = 0, numbers[TABLES] = {0};
    nameless = 0xffff;
    struct exact_node *first = exact_python_child(x, t, &t->root, 0x10000, 0);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t code = 0x10000 + i % PLACES * 0x100, other = 0x20000 + i % PLACES * 0x100;
        codes_forget(x->codes, code);
        codes_forget(x->codes, other);
        line_table = i % TABLES;
        struct exact_node *n = exact_python_child(x, t, &t->root, code, 0);
        assert_ptr_equal(n, first);
        assert_true(exact_is_of(x, n, code));
        assert_ptr_equal(exact_hot_child(x, &t->root, code), n);
        assert_int_equal(exact_python_child(x, t, n, code, 0)->parent, n->id);
        uint32_t number = codes_numbers(x->codes, codes_find(x->codes, code)).number;
        assert_true(!numbers[i % TABLES] || numbers[i % TABLES] == number);
        numbers[i % TABLES] = number;
        assert_ptr_not_equal(exact_python_child(x, t, &t->root, other, 0), n);
    }
    nameless = line_table = 0;
    assert_int_equal(t->n, 3);
    while (exact_read_code(x))
        n_records++;
    assert_int_equal(n_records, 2 * TABLES);
    free_session(x);
}

/* Two on one line, and both are called. */
static void called_in_turns_they_are_found_fast(void **state)
{
    (void)state;
    struct exact *x = new_session(10);
    struct exact_thread *t = exact_add_thread(x, "");
    nameless = 0xffff;
    struct exact_node *n = exact_python_child(x, t, &t->root, 0x10000, 0);
    for (int i = 0; i < 10; i++)
        for (uint64_t code = 0x10000; code <= 0x10040; code += 0x40) {
            assert_ptr_equal(exact_python_child(x, t, &t->root, code, 0), n);
            assert_ptr_equal(exact_hot_child(x, &t->root, code), n);
        }
    nameless = 0;
    free_session(x);
}

static void the_stack_grows(void **state)
{
    (void)state;
    struct exact *x = new_session(100);
    x->c_calls = true;
    struct exact_thread *t = exact_add_thread(x, "");
    uint32_t capacity = t->capacity;
    t->c_calls[capacity - 1].since = 76;
    t->depth = capacity;
    t->stack[capacity - 1].frame = 77;
    assert_true(exact_grow_stack(t));
    assert_int_equal(t->capacity, 2 * capacity);
    assert_int_equal(t->stack[capacity - 1].frame, 77);
    t->stack[2 * capacity - 1].frame = 78;
    assert_int_equal(t->c_calls[capacity - 1].since, 76);
    t->c_calls[2 * capacity - 1].since = 79;
    free_session(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_are_found_again),
        cmocka_unit_test(a_full_tree_stands_for_what_it_has_no_room_for),
        cmocka_unit_test(code_objects_arrive_once_and_in_order),
        cmocka_unit_test(a_new_object_at_an_old_address_is_another_function),
        cmocka_unit_test(equal_code_objects_are_one_function),
        cmocka_unit_test(called_in_turns_they_are_found_fast),
        cmocka_unit_test(the_stack_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
