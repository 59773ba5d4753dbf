#include "unit.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_ring.h"

#define PAGE 4096
#define SIZE 4096
#define KERNEL ((uint64_t)PERF_CONTEXT_KERNEL)

/* The kernel's side of a ring: its page, its data, and what it has written. */
static struct {
    union {
        struct perf_event_mmap_page page;
        unsigned char bytes[PAGE];
    } head;
    unsigned char data[SIZE];
} shared;

static struct kernel_ring ring = {&shared, sizeof shared};

static int begin(void **state)
{
    (void)state;
    memset(&shared, 0, sizeof shared);
    shared.head.page.data_offset = PAGE;
    shared.head.page.data_size = SIZE;
    return 0;
}

static void write_bytes(const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        shared.data[shared.head.page.data_head++ % SIZE] = ((const unsigned char *)from)[i];
}

static void write_record(uint32_t type, const uint64_t *words, size_t n)
{
    struct perf_event_header head = {.type = type, .size = (uint16_t)(sizeof head + 8 * n)};
    write_bytes(&head, sizeof head);
    write_bytes(words, 8 * n);
}

#define AT 0x401000 /* the instruction */

static void write_sample(uint32_t tid, uint64_t time_ns, const uint64_t *chain, size_t n)
{
    uint64_t words[4 + 300] = {AT, (uint64_t)tid << 32 | 1, time_ns, n};
    memcpy(words + 4, chain, 8 * n);
    write_record(PERF_RECORD_SAMPLE, words, 4 + n);
}

struct taken {
    size_t records, n;
    pid_t tid;
    uint64_t time_ns, chain[512];
};

static void take(void *arg, pid_t tid, uint64_t time_ns, uint64_t at, const uint64_t *chain,
                 size_t n)
{
    assert_int_equal(at, AT);
    struct taken *t = arg;
    assert_true(time_ns > t->time_ns);
    t->records++;
    t->tid = tid;
    t->time_ns = time_ns;
    t->n = n;
    memcpy(t->chain, chain, 8 * n);
}

static void marks_are_no_frames(void **state)
{
    (void)state;
    struct taken t = {0};
    uint64_t chain[] = {KERNEL, 0xffffffff81000010, 0xffffffff81000020};
    write_sample(7, 100, chain, 3);
    assert_int_equal(kernel_ring_read(&ring, take, &t), 0);
    assert_int_equal(t.records, 1);
    assert_int_equal(t.tid, 7);
    assert_int_equal(t.time_ns, 100);
    assert_int_equal(t.n, 2);
    assert_memory_equal(t.chain, chain + 1, 16);
    write_sample(7, 101, chain, 0);
    kernel_ring_read(&ring, take, &t);
    assert_int_equal(t.records, 2);
    assert_int_equal(t.n, 0);
}

static void records_go_around_the_end(void **state)
{
    (void)state;
    struct taken t = {0};
    uint64_t chain[40] = {0}, random = 88172645463325252ull;
    for (uint64_t i = 1; i <= 2000; i++) {
        size_t n = unit_random(&random) % 40;
        for (size_t k = 0; k < n; k++)
            chain[k] = unit_random(&random) >> 1;
        write_sample((uint32_t)i, i, chain, n);
        kernel_ring_read(&ring, take, &t);
        assert_int_equal(t.records, i);
        assert_int_equal(t.tid, i);
        assert_int_equal(t.n, n);
        assert_memory_equal(t.chain, chain, 8 * n);
        assert_int_equal(shared.head.page.data_tail, shared.head.page.data_head);
    }
}

static void lost_records_are_counted(void **state)
{
    (void)state;
    struct taken t = {0};
    uint64_t lost[] = {1, 5}, chain[] = {42};
    write_record(PERF_RECORD_LOST, lost, 2);
    write_sample(1, 1, chain, 1);
    lost[1] = 2;
    write_record(PERF_RECORD_LOST, lost, 2);
    assert_int_equal(kernel_ring_read(&ring, take, &t), 7);
    assert_int_equal(t.records, 1);
}

static void what_does_not_fit_is_skipped(void **state)
{
    (void)state;
    struct taken t = {0};
    uint64_t many[511] = {0}, claims[] = {AT, 1ull << 32, 1, 1000, 43, 44};
    write_record(PERF_RECORD_SAMPLE, claims, 6); /* as many addresses as there are */
    kernel_ring_read(&ring, take, &t);
    assert_int_equal(t.n, 2);
    write_record(PERF_RECORD_THROTTLE, many, 3);
    write_record(PERF_RECORD_SAMPLE, many, 3); /* too short to be one */
    kernel_ring_read(&ring, take, &t);
    assert_int_equal(t.records, 1);
    struct perf_event_header endless = {.type = PERF_RECORD_SAMPLE};
    write_bytes(&endless, sizeof endless);
    kernel_ring_read(&ring, take, &t);
    assert_int_equal(t.records, 1);
}

static void without_a_ring_nothing_is_read(void **state)
{
    (void)state;
    struct kernel_ring none = {0};
    assert_int_equal(kernel_ring_read(&none, take, NULL), 0);
    kernel_ring_map(&none, -1, SIZE);
    assert_null(none.pages);
    kernel_ring_unmap(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(marks_are_no_frames, begin),
        cmocka_unit_test_setup(records_go_around_the_end, begin),
        cmocka_unit_test_setup(lost_records_are_counted, begin),
        cmocka_unit_test_setup(what_does_not_fit_is_skipped, begin),
        cmocka_unit_test(without_a_ring_nothing_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
