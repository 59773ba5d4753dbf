#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spool.h"

#define FLOOR 200
#define BUFFERED (256 * 1024) /* what the spool keeps before it writes */

static struct spool *spool;
static int fd;

static int unnamed_file(void)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/pyhybrid-test-XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(path);
    if (file >= 0)
        unlink(path);
    return file;
}

static int set_up(void **state)
{
    (void)state;
    fd = unnamed_file();
    return fd < 0 ? -1 : spool_open(&spool, fd, FLOOR);
}

static int tear_down(void **state)
{
    (void)state;
    spool_close(spool);
    spool = NULL;
    return close(fd);
}

static off_t file_size(int file)
{
    struct stat st;
    assert_int_equal(fstat(file, &st), 0);
    return st.st_size;
}

static bool is_open(int number)
{
    return fcntl(number, F_GETFD) >= 0;
}

/* The whole file; `*size` bytes, to be freed. */
static unsigned char *contents(size_t *size)
{
    *size = (size_t)file_size(fd);
    unsigned char *bytes = malloc(*size + 1);
    assert_int_equal(pread(fd, bytes, *size, 0), *size);
    return bytes;
}

static void the_file_starts_with_its_header(void **state)
{
    (void)state;
    assert_int_equal(spool_flush(spool), 0);
    struct spool_header header;
    assert_int_equal(file_size(fd), sizeof header);
    assert_int_equal(pread(fd, &header, sizeof header, 0), sizeof header);
    assert_memory_equal(header.magic, "PYHSPOOL", 8);
    assert_int_equal(header.version, SPOOL_VERSION);
    assert_int_equal(header.pid, getpid());
}

static void the_descriptor_is_out_of_the_way_and_not_inherited(void **state)
{
    (void)state;
    assert_int_equal(fcntl(FLOOR, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFD), 0);
}

static void records_have_the_documented_bytes(void **state)
{
    (void)state;
    assert_int_equal(spool_append(spool, SPOOL_META, "{}", 2, NULL, 0), 0);
    assert_int_equal(spool_append(spool, SPOOL_THREAD_NAME, "01234567", 8, "abc", 3), 0);
    assert_int_equal(spool_append(spool, SPOOL_END, NULL, 0, "12345678", 8), 0);
    assert_int_equal(spool_append(spool, 99, NULL, 0, NULL, 0), 0);
    assert_int_equal(spool_flush(spool), 0);
    /* Checks as zlib.adler32 has them. */
    static const unsigned char wanted[] = "pool\374\0\223\1"
                                          "\1\0\0\0\2\0\0\0{}\0\0\0\0\0\0"
                                          "pool\324\2\134\17"
                                          "\6\0\0\0\13\0\0\0"
                                          "01234567abc\0\0\0\0\0"
                                          "pool\270\1\130\10"
                                          "\13\0\0\0\10\0\0\0"
                                          "12345678"
                                          "pool\144\0\40\3"
                                          "\143\0\0\0\0\0\0";
    size_t size;
    unsigned char *bytes = contents(&size);
    assert_int_equal(size, sizeof(struct spool_header) + sizeof wanted);
    assert_memory_equal(bytes + sizeof(struct spool_header), wanted, sizeof wanted);
    free(bytes);
}

/* Readers in other languages (pyhybrid/spool/reader.py) count on these sizes. */
static void structures_have_no_hidden_padding(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct spool_header), 24);
    assert_int_equal(sizeof(struct spool_record), 16);
    assert_int_equal(sizeof(struct spool_half), 16);
    assert_int_equal(sizeof(struct spool_exact_counters), 16);
    assert_int_equal(sizeof(struct spool_exact_count), 40);
    assert_int_equal(sizeof(struct spool_clock), 32);
    assert_int_equal(sizeof(struct spool_segment), 32);
    assert_int_equal(sizeof(struct spool_module), 32);
    assert_int_equal(sizeof(struct spool_module_end), 16);
    assert_int_equal(sizeof(struct spool_code), 24);
    assert_int_equal(sizeof(struct spool_thread), 40);
    assert_int_equal(sizeof(struct spool_thread_name), 8);
    assert_int_equal(sizeof(struct spool_stacks), 8);
    assert_int_equal(sizeof(struct spool_function), 16);
    assert_int_equal(sizeof(struct spool_samples), 24);
    assert_int_equal(sizeof(struct spool_weight), 8);
    assert_int_equal(sizeof(struct spool_counters), 48 + 128 + 4 * SPOOL_HISTOGRAM);
    assert_int_equal(sizeof(struct spool_end), 48);
    assert_true(N_LOSSES <= 8);
}

static void nothing_is_written_before_a_flush(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(spool_append(spool, SPOOL_META, "{}", 2, NULL, 0), 0);
    assert_int_equal(file_size(fd), 0);
    assert_int_equal(spool_flush(spool), 0);
    assert_int_equal(file_size(fd), 24 + 100 * 24);
    assert_int_equal(spool_flush(spool), 0);
    assert_int_equal(file_size(fd), 24 + 100 * 24);
}

/* What another thread would have to wait with. */
static void posted_records_come_before_what_is_added_later(void **state)
{
    (void)state;
    char texts[3][300];
    for (int i = 0; i < 3; i++)
        memset(texts[i], 'a' + i, sizeof *texts);
    for (size_t n = 0; n < sizeof *texts; n++) { /* of each length, and more than a page in all */
        assert_int_equal(spool_post(spool, SPOOL_REGION, "number", 6, texts[0], n), 0);
        if (n % 7 == 0)
            assert_int_equal(spool_append(spool, SPOOL_META, texts[1], 2, texts[2], n), 0);
    }
    assert_int_equal(spool_flush(spool), 0);
    size_t size;
    unsigned char *bytes = contents(&size), *at = bytes + sizeof(struct spool_header);
    for (size_t n = 0; n < sizeof *texts; n++)
        for (int added = 0; added < (n % 7 ? 1 : 2); added++) {
            size_t head = added ? 2 : 6;
            const struct spool_record *r = (const struct spool_record *)at;
            assert_int_equal(r->mark, SPOOL_MARK);
            assert_int_equal(r->type, added ? SPOOL_META : SPOOL_REGION);
            assert_int_equal(r->length, head + n);
            at += sizeof *r;
            assert_memory_equal(at, added ? texts[1] : "number", head);
            assert_memory_equal(at + head, texts[added ? 2 : 0], n);
            for (at += head + n; (at - bytes) & 7; at++)
                assert_int_equal(*at, 0);
        }
    assert_ptr_equal(at, bytes + size);
    free(bytes);
}

/* Payloads around the buffer's size, and many small ones: all come out whole and in order. */
static void records_of_any_size_come_out_in_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,
                                   5,
                                   BUFFERED - 24,
                                   BUFFERED - 16,
                                   BUFFERED - 8,
                                   BUFFERED,
                                   1,
                                   BUFFERED + 1,
                                   3,
                                   3 * BUFFERED,
                                   8,
                                   7,
                                   100};
    enum { N = sizeof sizes / sizeof *sizes, SMALL = 30000 };
    static unsigned char body[3 * BUFFERED + N];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (unsigned char)(i * 31 + i / 256);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(spool_append(spool, i + 1, &i, sizeof i, body + i, sizes[i]), 0);
    for (uint32_t i = 0; i < SMALL; i++)
        assert_int_equal(spool_append(spool, 50, &i, sizeof i, body, i % 50), 0);
    assert_int_equal(spool_flush(spool), 0);

    size_t size, at = sizeof(struct spool_header);
    unsigned char *bytes = contents(&size);
    for (uint32_t k = 0; k < N + SMALL; k++) {
        uint32_t i = k < N ? k : k - N, number;
        size_t wanted = k < N ? sizes[i] : i % 50;
        struct spool_record record;
        memcpy(&record, bytes + at, sizeof record);
        memcpy(&number, bytes + at + sizeof record, sizeof number);
        assert_int_equal(record.type, k < N ? i + 1 : 50);
        assert_int_equal(record.length, sizeof number + wanted);
        assert_int_equal(number, i);
        if (memcmp(bytes + at + sizeof record + 4, body + (k < N ? i : 0), wanted))
            fail_msg("the body of record %u differs", k);
        at += sizeof record + record.length;
        for (; at % 8; at++)
            assert_int_equal(bytes[at], 0);
    }
    assert_int_equal(at, size);
    free(bytes);
}

/* The content of `place`'s half that counts, by the file alone. */
static uint32_t committed_value(const struct spool_place *place)
{
    struct spool_header header;
    struct {
        struct spool_half half;
        uint32_t value;
    } found[2];
    assert_int_equal(pread(fd, &header, sizeof header, 0), sizeof header);
    uint64_t newest = 0;
    uint32_t value = 0;
    for (int i = 0; i < 2; i++) {
        off_t at = (off_t)(place->at + (uint64_t)i * place->half_bytes);
        assert_int_equal(pread(fd, &found[i], sizeof found[i], at), sizeof found[i]);
        if (found[i].half.round > newest && found[i].half.round <= header.committed) {
            newest = found[i].half.round;
            value = found[i].value;
        }
    }
    return value;
}

/* Whenever it is killed, the file has the counters of one moment. */
static void replaced_records_change_with_their_round(void **state)
{
    (void)state;
    struct spool_place a = {0}, b = {0};
    off_t size = 0;
    for (uint32_t i = 1; i < 10; i++) {
        uint32_t value = 10 * i, before = 10 * (i - 1);
        assert_int_equal(spool_replace(spool, &a, 50, 100, &i, sizeof i, NULL, 0), 0);
        assert_int_equal(spool_replace(spool, &a, 50, 100, &value, sizeof i, NULL, 0), 0);
        assert_int_equal(spool_replace(spool, &b, 50, 100, NULL, 0, &value, sizeof i), 0);
        assert_int_equal(spool_flush(spool), 0);
        assert_int_equal(committed_value(&a), before);
        assert_int_equal(committed_value(&b), before);
        assert_int_equal(spool_commit(spool), 0);
        assert_int_equal(committed_value(&a), value);
        assert_int_equal(committed_value(&b), value);
        if (!size)
            size = file_size(fd);
        assert_int_equal(file_size(fd), size);
        assert_int_equal(spool_commit(spool), 0); /* without any: no round */
    }
    assert_int_equal(spool_replace(spool, &a, 50, 100, NULL, 0, "", BUFFERED), -EINVAL);
}

/* A daemon closes all descriptors, and opens its own under our number. */
static void nothing_is_written_into_a_file_that_took_our_number(void **state)
{
    (void)state;
    int other = unnamed_file();
    assert_int_equal(close(FLOOR), 0);
    assert_int_equal(dup2(other, FLOOR), FLOOR);
    assert_int_equal(spool_append(spool, SPOOL_META, "{}", 2, NULL, 0), 0);
    assert_int_equal(spool_flush(spool), -EBADF);
    assert_int_equal(spool_append(spool, SPOOL_META, "{}", 2, NULL, 0), -EBADF);
    assert_int_equal(file_size(other), 0);
    assert_int_equal(file_size(fd), 0);
    spool_close(spool);
    spool = NULL;
    assert_true(is_open(FLOOR)); /* it is the program's */
    close(FLOOR);
    close(other);
}

static void a_large_record_is_not_written_into_a_foreign_file_either(void **state)
{
    (void)state;
    static const unsigned char body[BUFFERED + 8];
    int other = unnamed_file();
    assert_int_equal(dup2(other, FLOOR), FLOOR);
    assert_int_equal(spool_append(spool, SPOOL_META, NULL, 0, body, sizeof body), -EBADF);
    assert_int_equal(file_size(other), 0);
    close(other);
    close(FLOOR);
}

static void a_closed_descriptor_is_an_error_like_any_other(void **state)
{
    (void)state;
    close(FLOOR);
    assert_int_equal(spool_flush(spool), -EBADF);
    assert_int_equal(spool_flush(spool), -EBADF);
}

static void a_full_device_is_reported_from_then_on(void **state)
{
    (void)state;
    int full = open("/dev/full", O_WRONLY);
    if (full < 0)
        skip();
    struct spool *s;
    assert_int_equal(spool_open(&s, full, FLOOR), 0);
    assert_int_equal(spool_append(s, SPOOL_META, "{}", 2, NULL, 0), 0);
    assert_int_equal(spool_flush(s), -ENOSPC);
    assert_int_equal(spool_append(s, SPOOL_META, "{}", 2, NULL, 0), -ENOSPC);
    assert_int_equal(spool_flush(s), -ENOSPC);
    spool_close(s);
    close(full);
}

/* A write that is cut short: what fits stays, and nothing is added when there is room again, since
 * it would follow a torn record. */
static void after_a_torn_write_nothing_follows(void **state)
{
    (void)state;
    struct rlimit old;
    static const unsigned char body[1000];
    getrlimit(RLIMIT_FSIZE, &old);
    struct rlimit small = {4100, old.rlim_max};
    void (*old_handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int error = 0;
    for (int i = 0; i < 10; i++)
        error |= spool_append(spool, SPOOL_META, NULL, 0, body, sizeof body);
    int flushed = spool_flush(spool);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, old_handler);
    assert_int_equal(error, 0);
    assert_int_equal(flushed, -EFBIG);
    assert_int_equal(file_size(fd), 4100);
    assert_int_equal(spool_append(spool, SPOOL_META, NULL, 0, body, sizeof body), -EFBIG);
    assert_int_equal(spool_flush(spool), -EFBIG);
    assert_int_equal(file_size(fd), 4100);
}

static void closing_writes_nothing(void **state)
{
    (void)state;
    spool_append(spool, SPOOL_META, "{}", 2, NULL, 0);
    spool_close(spool);
    spool = NULL;
    assert_int_equal(file_size(fd), 0);
    assert_false(is_open(FLOOR));
    assert_true(is_open(fd));
    spool_close(NULL);
}

static void an_abandoned_file_is_left_as_it_is(void **state)
{
    (void)state;
    spool_append(spool, SPOOL_META, "{}", 2, NULL, 0);
    spool_abandon(spool);
    assert_false(is_open(FLOOR));
    assert_int_equal(spool_flush(spool), -EBADF);
    assert_int_equal(file_size(fd), 0);
}

static void opening_a_closed_descriptor_is_refused(void **state)
{
    (void)state;
    struct spool *s = NULL;
    assert_int_equal(spool_open(&s, 999, FLOOR), -EBADF);
    assert_null(s);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* What a reader finds in it: the lengths of its records. */
static size_t in_segment(uint64_t at, size_t bytes, uint32_t *lengths)
{
    static char data[8192];
    size_t n = 0;
    assert_true(bytes <= sizeof data && spool_read(spool, at, data, bytes));
    for (size_t i = sizeof(struct spool_segment_head); i + sizeof(struct spool_record) <= bytes;) {
        const struct spool_record *r = (const struct spool_record *)(data + i);
        if (r->mark != SPOOL_MARK)
            break;
        lengths[n++] = r->length;
        i += spool_segment_room(r->length) - sizeof *r;
    }
    return n;
}

static void a_segment_begins_anew(void **state)
{
    (void)state;
    static const char text[100] = "samples";
    uint64_t at, next;
    uint32_t lengths[100];
    assert_int_equal(spool_segment_new(spool, 4096, &at), 0);
    assert_int_equal(spool_append(spool, SPOOL_META, "{}", 2, NULL, 0), 0);
    assert_int_equal(in_segment(at, 4096, lengths), 0);
    for (uint64_t number = 1; number < 4; number++) {
        assert_int_equal(spool_segment_begin(spool, at, number), 0);
        assert_int_equal(in_segment(at, 4096, lengths), 0);
        next = at + sizeof(struct spool_segment_head);
        for (size_t i = 0; i < 20; i++) {
            size_t length = 40 + (i * number) % 50;
            assert_int_equal(
                spool_segment_add(spool, next, SPOOL_SAMPLES, text, 8, text, length - 8), 0);
            next += spool_segment_room(length) - sizeof(struct spool_record);
            assert_int_equal(in_segment(at, 4096, lengths), i + 1);
            assert_int_equal(lengths[i], length);
        }
    }
    assert_int_equal(spool_flush(spool), 0);
    assert_true((uint64_t)file_size(fd) > at + 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_file_starts_with_its_header),
        CASE(the_descriptor_is_out_of_the_way_and_not_inherited),
        CASE(records_have_the_documented_bytes),
        cmocka_unit_test(structures_have_no_hidden_padding),
        CASE(nothing_is_written_before_a_flush),
        CASE(posted_records_come_before_what_is_added_later),
        CASE(records_of_any_size_come_out_in_order),
        CASE(replaced_records_change_with_their_round),
        CASE(nothing_is_written_into_a_file_that_took_our_number),
        CASE(a_large_record_is_not_written_into_a_foreign_file_either),
        CASE(a_closed_descriptor_is_an_error_like_any_other),
        cmocka_unit_test(a_full_device_is_reported_from_then_on),
        CASE(after_a_torn_write_nothing_follows),
        CASE(a_segment_begins_anew),
        CASE(closing_writes_nothing),
        CASE(an_abandoned_file_is_left_as_it_is),
        cmocka_unit_test(opening_a_closed_descriptor_is_refused),
    };
    return cmocka_run_group_tests_name("spool", tests, NULL, NULL);
}
