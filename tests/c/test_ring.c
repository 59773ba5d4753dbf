#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ring.h"

#define SIZE 256

static _Alignas(8) unsigned char memory[SIZE];

static int set_up(void **state)
{
    static struct ring ring;
    memset(memory, 0xee, sizeof memory);
    ring_init(&ring, memory, sizeof memory);
    *state = &ring;
    return 0;
}

/* Adds a record of `size` bytes, all but its header filled with `type`. */
static bool put(struct ring *r, size_t size, uint32_t type)
{
    unsigned char *record = ring_reserve(r, size);
    if (!record)
        return false;
    memset(record + sizeof(struct ring_record), (int)type, size - sizeof(struct ring_record));
    ring_commit(r, record, size, type);
    return true;
}

/* Takes the oldest record, which must be the one that put() made. */
static void expect(struct ring *r, size_t size, uint32_t type)
{
    const struct ring_record *record = ring_peek(r);
    assert_non_null(record);
    assert_int_equal(record->type, type);
    assert_int_equal(record->size, (size + 7) & ~7ull);
    const unsigned char *bytes = (const unsigned char *)(record + 1);
    for (size_t i = 0; i < size - sizeof *record; i++)
        assert_int_equal(bytes[i], type);
    ring_release(r, record);
}

static size_t offset_of(const void *record)
{
    return (size_t)((const unsigned char *)record - memory);
}

/* Moves an empty ring's position to `offset`. */
static void move_to(struct ring *r, size_t offset)
{
    ring_init(r, memory, sizeof memory);
    for (; offset; offset -= 8) {
        assert_true(put(r, 8, 1));
        expect(r, 8, 1);
    }
}

static void an_empty_ring_has_no_record(void **state)
{
    assert_null(ring_peek(*state));
    assert_int_equal(ring_used(*state), 0);
}

static void records_come_out_in_order(void **state)
{
    static const size_t sizes[] = {8, 24, 17, 40, 9};
    for (uint32_t i = 0; i < 5; i++)
        assert_true(put(*state, sizes[i], i + 1));
    assert_int_equal(ring_used(*state), 8 + 24 + 24 + 40 + 16);
    for (uint32_t i = 0; i < 5; i++)
        expect(*state, sizes[i], i + 1);
    assert_null(ring_peek(*state));
    assert_int_equal(ring_used(*state), 0);
}

static void a_record_stays_until_released(void **state)
{
    assert_true(put(*state, 16, 7));
    assert_true(put(*state, 16, 8));
    assert_ptr_equal(ring_peek(*state), ring_peek(*state));
    expect(*state, 16, 7);
    expect(*state, 16, 8);
}

static void a_record_that_would_wrap_follows_padding(void **state)
{
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(put(*state, 72, 2));
        expect(*state, 72, 2);
    }
    assert_true(put(*state, 72, 3)); /* 40 bytes are left before the end */
    assert_int_equal(ring_used(*state), 40 + 72);
    const struct ring_record *record = ring_peek(*state);
    assert_int_equal(offset_of(record), 0);
    assert_int_equal(ring_used(*state), 72);
    expect(*state, 72, 3);
    assert_null(ring_peek(*state));
}

static void padding_may_be_as_small_as_its_header(void **state)
{
    move_to(*state, SIZE - 8);
    assert_true(put(*state, 16, 4));
    assert_int_equal(ring_used(*state), 8 + 16);
    expect(*state, 16, 4);
    assert_null(ring_peek(*state));
}

static void a_record_that_ends_at_the_end_needs_no_padding(void **state)
{
    move_to(*state, SIZE - 64);
    void *record = ring_reserve(*state, 64);
    assert_int_equal(offset_of(record), SIZE - 64);
    ring_commit(*state, record, 64, 5);
    assert_int_equal(ring_used(*state), 64);
    assert_ptr_equal(ring_peek(*state), record);
    ring_release(*state, record);
    assert_int_equal(offset_of(ring_reserve(*state, 64)), 0);
}

static void a_full_ring_refuses_and_keeps_what_it_has(void **state)
{
    for (uint32_t i = 1; i <= 4; i++)
        assert_true(put(*state, 64, i));
    assert_int_equal(ring_used(*state), SIZE);
    assert_null(ring_reserve(*state, 8));
    expect(*state, 64, 1);
    assert_null(ring_reserve(*state, 72));
    assert_true(put(*state, 64, 5));
    assert_null(ring_reserve(*state, 8));
    for (uint32_t i = 2; i <= 5; i++)
        expect(*state, 64, i);
    assert_null(ring_peek(*state));
}

static void padding_counts_against_the_room(void **state)
{
    for (uint32_t i = 1; i <= 3; i++)
        assert_true(put(*state, 72, i));
    expect(*state, 72, 1);
    /* 112 bytes are free, 40 of them before the end. */
    assert_null(ring_reserve(*state, 80));
    assert_true(put(*state, 72, 4));
    assert_int_equal(ring_used(*state), SIZE);
    for (uint32_t i = 2; i <= 4; i++)
        expect(*state, 72, i);
}

static void one_record_may_fill_the_ring(void **state)
{
    assert_true(put(*state, SIZE, 6));
    assert_null(ring_reserve(*state, 8));
    expect(*state, SIZE, 6);
    assert_true(put(*state, SIZE, 7));
    expect(*state, SIZE, 7);
    assert_null(ring_reserve(*state, SIZE + 1));
}

static void half_a_ring_fits_at_every_position(void **state)
{
    for (size_t at = 0; at < SIZE; at += 8) {
        move_to(*state, at);
        assert_true(put(*state, SIZE / 2, 9));
        expect(*state, SIZE / 2, 9);
        assert_null(ring_peek(*state));
    }
}

static void a_reservation_alone_costs_nothing(void **state)
{
    move_to(*state, SIZE - 16);
    void *first = ring_reserve(*state, 128);
    assert_non_null(first);
    assert_null(ring_peek(*state));
    assert_int_equal(ring_used(*state), 0);
    assert_ptr_equal(ring_reserve(*state, 128), first);
    assert_int_equal(offset_of(ring_reserve(*state, 16)), SIZE - 16);
    assert_true(put(*state, 16, 3));
    assert_int_equal(ring_used(*state), 16);
    expect(*state, 16, 3);
}

static void a_record_may_be_smaller_than_reserved(void **state)
{
    for (size_t at = 0; at < SIZE; at += 8) {
        move_to(*state, at);
        unsigned char *record = ring_reserve(*state, 100);
        assert_non_null(record);
        memset(record, 5, 100);
        ring_commit(*state, record, 24, 5);
        assert_true(put(*state, 40, 6));
        expect(*state, 24, 5);
        expect(*state, 40, 6);
        assert_null(ring_peek(*state));
    }
}

static void positions_pass_32_bits(void **state)
{
    struct ring *r = *state;
    atomic_store(&r->head, (1ull << 32) - 64);
    atomic_store(&r->tail, (1ull << 32) - 64);
    for (uint32_t i = 1; i <= 100; i++) {
        assert_true(put(r, 40, i));
        assert_true(put(r, 48, i));
        expect(r, 40, i);
        expect(r, 48, i);
    }
    assert_true(atomic_load(&r->head) > 1ull << 32);
}

/* A million records from one thread to another. */

#define N_RECORDS 1000000ull
#define WORDS_MAX 40

struct message {
    struct ring_record head;
    uint64_t number, sum;
    uint64_t words[];
};

static void *write_messages(void *arg)
{
    struct ring *r = arg;
    uint64_t random = 1;
    for (uint64_t number = 0; number < N_RECORDS; number++) {
        uint64_t n = unit_random(&random) % WORDS_MAX;
        struct message *m;
        while (!(m = ring_reserve(r, sizeof *m + WORDS_MAX * 8)))
            sched_yield();
        if (number % 7 == 0) /* abandoned, and begun again */
            m = ring_reserve(r, sizeof *m + n * 8);
        m->number = m->sum = number;
        for (uint64_t i = 0; i < n; i++) {
            m->words[i] = random + i;
            m->sum += m->words[i];
        }
        ring_commit(r, m, sizeof *m + n * 8, (uint32_t)(1 + n));
    }
    return NULL;
}

static void a_million_records_between_two_threads(void **state)
{
    static _Alignas(8) unsigned char large[4096];
    struct ring *r = *state;
    ring_init(r, large, sizeof large);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_messages, r), 0);
    uint64_t number = 0, bad = 0;
    while (number < N_RECORDS) {
        const struct message *m = (const struct message *)ring_peek(r);
        if (!m) {
            sched_yield();
            continue;
        }
        uint64_t n = m->head.type - 1, sum = number;
        bad += m->head.size != sizeof *m + n * 8 || n >= WORDS_MAX;
        for (uint64_t i = 0; i < n && !bad; i++)
            sum += m->words[i];
        bad += m->number != number || m->sum != sum;
        ring_release(r, &m->head);
        number++;
    }
    pthread_join(writer, NULL);
    assert_int_equal(bad, 0);
    assert_null(ring_peek(r));
    assert_true(atomic_load(&r->head) > 100 * sizeof large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_ring_has_no_record, set_up),
        cmocka_unit_test_setup(records_come_out_in_order, set_up),
        cmocka_unit_test_setup(a_record_stays_until_released, set_up),
        cmocka_unit_test_setup(a_record_that_would_wrap_follows_padding, set_up),
        cmocka_unit_test_setup(padding_may_be_as_small_as_its_header, set_up),
        cmocka_unit_test_setup(a_record_that_ends_at_the_end_needs_no_padding, set_up),
        cmocka_unit_test_setup(a_full_ring_refuses_and_keeps_what_it_has, set_up),
        cmocka_unit_test_setup(padding_counts_against_the_room, set_up),
        cmocka_unit_test_setup(one_record_may_fill_the_ring, set_up),
        cmocka_unit_test_setup(half_a_ring_fits_at_every_position, set_up),
        cmocka_unit_test_setup(a_reservation_alone_costs_nothing, set_up),
        cmocka_unit_test_setup(a_record_may_be_smaller_than_reserved, set_up),
        cmocka_unit_test_setup(positions_pass_32_bits, set_up),
        cmocka_unit_test_setup(a_million_records_between_two_threads, set_up),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
