#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "codes.h"
#include "frame.h"
#include "records.h"

#define HEAP 0x7f1234560000ull
#define ALL (1u << 18) /* twice the table's slots */

static int set_up(void **state)
{
    *state = codes_new();
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    codes_free(*state);
    return 0;
}

static uint64_t address_of(uint64_t i)
{
    return HEAP + 16 * i;
}

/* As the handler does it. */
static uint64_t intern(struct codes *c, uint64_t address, bool *added)
{
    *added = false;
    uint64_t id = codes_find(c, address);
    return id ? id : codes_add(c, address, added);
}

static void what_is_added_is_found(void **state)
{
    bool added;
    assert_int_equal(codes_find(*state, HEAP), 0);
    uint64_t id = codes_add(*state, HEAP, &added);
    assert_true(added);
    assert_int_not_equal(id, 0);
    assert_int_equal(codes_find(*state, HEAP), id);
    assert_int_equal(codes_find(*state, HEAP + 16), 0);
}

static void slots_have_what_is_there(void **state)
{
    bool added;
    uint64_t last = 0, n = 0;
    codes_add(*state, HEAP, &added);
    codes_add(*state, HEAP + 16, &added);
    codes_forget(*state, HEAP);
    for (uint32_t slot = 0; slot < CODES_SLOTS; slot++)
        if (codes_at(*state, slot)) {
            last = codes_at(*state, slot);
            n++;
        }
    assert_int_equal(n, 1);
    assert_int_equal(last, HEAP + 16);
}

static void adding_again_gives_the_same_id(void **state)
{
    bool added;
    uint64_t id = codes_add(*state, HEAP, &added);
    assert_int_equal(codes_add(*state, HEAP, &added), id);
    assert_false(added);
}

static void addresses_have_ids_of_their_own(void **state)
{
    bool added;
    uint64_t low = codes_add(*state, 0x1000, &added),
             high = codes_add(*state, PYH_ADDR_MASK & ~15, &added);
    uint64_t near = codes_add(*state, 0x1008, &added); /* 8 bytes off: a place in common */
    assert_true(low && high && near);
    assert_true(low != high && low != near && high != near);
    assert_int_equal(codes_find(*state, 0x1000), low);
    assert_int_equal(codes_find(*state, 0x1008), near);
    assert_int_equal(codes_find(*state, PYH_ADDR_MASK & ~15), high);
}

static void a_reused_address_gets_another_id(void **state)
{
    uint64_t before = 0;
    for (int i = 0; i < 1000; i++) {
        bool added;
        uint64_t id = codes_add(*state, HEAP, &added);
        assert_true(added);
        assert_int_not_equal(id, 0);
        assert_true(id > before);
        before = id;
        codes_forget(*state, HEAP);
        assert_int_equal(codes_find(*state, HEAP), 0);
    }
}

static void forgetting_what_is_not_there_does_nothing(void **state)
{
    bool added;
    uint64_t id = codes_add(*state, HEAP, &added);
    codes_forget(*state, HEAP + 16);
    assert_int_equal(codes_find(*state, HEAP), id);
    codes_forget(*state, HEAP);
    codes_forget(*state, HEAP);
    assert_int_equal(codes_find(*state, HEAP), 0);
}

/* The generation has 19 bits: when it begins again, an id is still not 0 (not even in the table's
 * first slot), and fits a frame word. */
static void generations_begin_again_without_an_id_of_zero(void **state)
{
    uint64_t address = HEAP, before = 1, n_smaller = 0;
    bool added;
    while (before << (64 - CODES_SLOT_BITS)) {
        address += 16;
        before = codes_add(*state, address, &added);
        codes_forget(*state, address);
    }
    for (int i = 0; i < (1 << 19) + 1000; i++) {
        uint64_t id = codes_add(*state, address, &added);
        if (!id || id == before || id >> PYH_CODE_ID_BITS)
            fail_msg("id %#lx after %#lx", (unsigned long)id, (unsigned long)before);
        n_smaller += id < before;
        before = id;
        codes_forget(*state, address);
    }
    assert_int_equal(n_smaller, 1);
}

static void a_death_does_not_hide_its_neighbours(void **state)
{
    struct codes *c = *state;
    uint64_t *ids = calloc(60000, sizeof *ids);
    bool added;
    for (uint64_t i = 0; i < 60000; i++)
        assert_int_not_equal(ids[i] = codes_add(c, address_of(i * 37), &added), 0);
    for (uint64_t i = 0; i < 60000; i += 2)
        codes_forget(c, address_of(i * 37));
    for (uint64_t i = 0; i < 60000; i++)
        assert_int_equal(codes_find(c, address_of(i * 37)), i % 2 ? ids[i] : 0);
    for (uint64_t i = 0; i < 60000; i += 2) {
        uint64_t id = intern(c, address_of(i * 37), &added);
        assert_true(added);
        assert_int_not_equal(id, ids[i]);
    }
    for (uint64_t i = 1; i < 60000; i += 2)
        assert_int_equal(codes_find(c, address_of(i * 37)), ids[i]);
    free(ids);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void without_room_it_gives_zero_and_harms_nothing(void **state)
{
    struct codes *c = *state;
    uint64_t *ids = calloc(ALL, sizeof *ids), n = 0, refused = 0;
    bool added;
    for (uint64_t i = 0; i < ALL; i++) {
        ids[i] = codes_add(c, address_of(i * 5), &added);
        assert_int_equal(added, ids[i] != 0);
        if (!ids[i])
            refused = i;
    }
    for (uint64_t i = 0; i < ALL; i++)
        assert_int_equal(codes_find(c, address_of(i * 5)), ids[i]);
    /* Now room for the last one that had none. */
    assert_int_not_equal(refused, 0);
    for (uint64_t i = 0; i < ALL; i++)
        if (ids[i] && i % 2)
            codes_forget(c, address_of(i * 5));
    uint64_t id = codes_add(c, address_of(refused * 5), &added);
    assert_true(added);
    for (uint64_t i = 0; i < ALL; i++)
        assert_int_not_equal(ids[i], id);
    qsort(ids, ALL, sizeof *ids, by_value);
    for (uint64_t i = 1; i < ALL; i++) {
        assert_true(!ids[i] || ids[i] != ids[i - 1]);
        n += ids[i] != 0;
    }
    assert_in_range(n, 200000, CODES_SLOTS);
    free(ids);
}

/* A code object at `address` with these contents; true: none had them. */
static bool interns(struct codes *c, uint64_t address, const char *name, uint32_t line,
                    uint32_t table, struct code_numbers *numbers)
{
    union {
        struct code_record r;
        unsigned char bytes[sizeof(struct code_record) + 64];
    } u = {.r = {.first_line = line,
                 .qualname_bytes = (uint32_t)strlen(name),
                 .qualname_kind = 1,
                 .line_table_bytes = sizeof table}};
    bool is_new;
    memcpy(u.r.text, name, strlen(name));
    memcpy(u.r.text + strlen(name), &table, sizeof table);
    uint64_t id = codes_intern(c, address, &u.r, sizeof u.r + strlen(name) + sizeof table, &is_new);
    assert_int_equal(id, codes_find(c, address));
    *numbers = codes_numbers(c, id);
    assert_int_equal(numbers->number, id ? u.r.number : 0);
    assert_int_equal(numbers->function, id ? u.r.function : 0);
    return is_new;
}

static void numbers_are_of_what_code_objects_contain(void **state)
{
    struct code_numbers first, again, table, line, name;
    assert_true(interns(*state, HEAP, "f", 1, 1, &first));
    codes_forget(*state, HEAP);
    assert_false(interns(*state, HEAP, "f", 1, 1, &again));
    assert_memory_equal(&first, &again, sizeof first);
    assert_false(interns(*state, HEAP + 16, "f", 1, 1, &again));
    assert_memory_equal(&first, &again, sizeof first);
    assert_true(interns(*state, HEAP + 32, "f", 1, 2, &table));
    assert_int_equal(table.function, first.function);
    assert_int_not_equal(table.number, first.number);
    assert_true(interns(*state, HEAP + 48, "f", 2, 1, &line));
    assert_int_not_equal(line.function, first.function);
    assert_true(interns(*state, HEAP + 64, "g", 1, 1, &name));
    assert_int_not_equal(name.function, first.function);
    /* Another object at the address: it has no numbers yet, whatever that before it had. */
    codes_forget(*state, HEAP + 64);
    bool added;
    uint64_t id = codes_add(*state, HEAP + 64, &added);
    assert_int_equal(codes_numbers(*state, id).function, 0);
}

/* Each function takes two numbers, and another table two more. */
static void without_room_there_are_no_numbers(void **state)
{
    uint32_t n = 0, refused = 0;
    for (uint32_t i = 0; i < CODES_NUMBERS; i++) {
        struct code_numbers numbers;
        bool is_new = interns(*state, HEAP + 16 * (uint64_t)(i % 1000), "f", i, i, &numbers);
        assert_int_equal(is_new, numbers.number != 0);
        n += is_new;
        refused += !is_new;
        codes_forget(*state, HEAP + 16 * (uint64_t)(i % 1000));
    }
    assert_true(n > CODES_NUMBERS / 5 * 2);
    assert_true(refused > 0);
    struct code_numbers numbers;
    assert_false(interns(*state, HEAP, "f", 1, 1, &numbers)); /* those that have them keep them */
    assert_int_not_equal(numbers.function, 0);
}

/* Threads, each like a handler. */

#define N_THREADS 4
#define N_SHARED 5000
#define N_OWN 2000

struct worker {
    pthread_t thread;
    struct codes *codes;
    uint64_t number, n_added, n_new;
    struct code_numbers numbers[N_SHARED];
    uint64_t shared[N_SHARED], own[N_OWN];
};

static pthread_barrier_t start;
static _Atomic uint64_t n_added;

static void *intern_all(void *arg)
{
    struct worker *w = arg;
    pthread_barrier_wait(&start);
    for (uint64_t i = 0; i < N_SHARED; i++) {
        bool added;
        w->shared[i] = intern(w->codes, address_of(i), &added);
        w->n_added += added;
        if (i < N_OWN)
            w->own[i] = intern(w->codes, address_of((w->number + 1) * 1000000 + i), &added);
        uint64_t elsewhere = address_of(w->number * 1000000 + 20000 + i % 100);
        codes_forget(w->codes, elsewhere);
        w->n_new += interns(w->codes, elsewhere, "f", (uint32_t)i, 7, &w->numbers[i]);
    }
    return NULL;
}

static void threads_agree_on_ids_and_one_of_them_adds(void **state)
{
    static struct worker workers[N_THREADS];
    pthread_barrier_init(&start, NULL, N_THREADS);
    for (uint64_t i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.codes = *state, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, intern_all, &workers[i]), 0);
    }
    n_added = 0;
    uint64_t n_new = 0;
    for (uint64_t i = 0; i < N_THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        n_added += workers[i].n_added;
        n_new += workers[i].n_new;
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(n_new, N_SHARED);
    for (uint64_t t = 1; t < N_THREADS; t++)
        assert_memory_equal(workers[t].numbers, workers[0].numbers, sizeof workers[t].numbers);
    assert_int_equal(n_added, N_SHARED);
    for (uint64_t i = 0; i < N_SHARED; i++)
        for (uint64_t t = 0; t < N_THREADS; t++) {
            assert_int_not_equal(workers[t].shared[i], 0);
            assert_int_equal(workers[t].shared[i], workers[0].shared[i]);
        }
    for (uint64_t t = 0; t < N_THREADS; t++)
        for (uint64_t i = 0; i < N_OWN; i++)
            assert_int_equal(codes_find(*state, address_of((t + 1) * 1000000 + i)),
                             workers[t].own[i]);
}

/* Two threads that run side by side: they start together every few addresses, and one of them is
 * held up a little longer each time, so that sooner or later they meet. */

#define N_TABLES 10
#define N_RACES 5000
#define SIDE_BY_SIDE 16

static struct codes *tables[N_TABLES];
static _Atomic uint64_t arrived;

static void race(unsigned delay)
{
    for (uint64_t i = 0; i < N_TABLES * N_RACES; i++) {
        arrived++;
        for (int spins = 0; arrived < 2 * (i + 1); spins++)
            if (spins > 10000)
                sched_yield();
        for (volatile unsigned k = 0; k < delay * (i % 64); k++)
            ;
        for (uint64_t k = 0; k < SIDE_BY_SIDE; k++) {
            bool added;
            codes_add(tables[i / N_RACES], address_of(SIDE_BY_SIDE * (i % N_RACES) + k), &added);
            n_added += added;
        }
    }
}

static void *race_with_delay(void *unused)
{
    race(1);
    return unused;
}

static void of_two_at_once_one_adds(void **state)
{
    (void)state;
    pthread_t other;
    arrived = n_added = 0;
    for (int i = 0; i < N_TABLES; i++)
        assert_non_null(tables[i] = codes_new());
    assert_int_equal(pthread_create(&other, NULL, race_with_delay, NULL), 0);
    race(0);
    pthread_join(other, NULL);
    for (int i = 0; i < N_TABLES; i++)
        codes_free(tables[i]);
    assert_int_equal(n_added, N_TABLES * N_RACES * SIDE_BY_SIDE);
}

static _Atomic bool stop;

/* Ids of one address only grow while it dies and is born again. */
static void *watch(void *arg)
{
    uint64_t before = 0, wrong = 0;
    while (!stop) {
        uint64_t id = codes_find(arg, HEAP);
        wrong += id && id < before;
        if (id)
            before = id;
    }
    return (void *)wrong;
}

static void a_reader_meets_births_and_deaths_in_order(void **state)
{
    pthread_t reader;
    void *wrong;
    bool added;
    stop = false;
    assert_int_equal(pthread_create(&reader, NULL, watch, *state), 0);
    for (int i = 0; i < 200000; i++) {
        codes_add(*state, HEAP, &added);
        codes_forget(*state, HEAP);
    }
    stop = true;
    pthread_join(reader, &wrong);
    assert_null(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_added_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slots_have_what_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(adding_again_gives_the_same_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(addresses_have_ids_of_their_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reused_address_gets_another_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forgetting_what_is_not_there_does_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(generations_begin_again_without_an_id_of_zero, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_death_does_not_hide_its_neighbours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_are_of_what_code_objects_contain, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_room_there_are_no_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_room_it_gives_zero_and_harms_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(threads_agree_on_ids_and_one_of_them_adds, set_up,
                                        tear_down),
        cmocka_unit_test(of_two_at_once_one_adds),
        cmocka_unit_test_setup_teardown(a_reader_meets_births_and_deaths_in_order, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("codes", tests, NULL, NULL);
}
