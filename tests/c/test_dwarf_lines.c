/* The labels of inlined.c and by_hand.S are looked up in the libraries that the build made from them;
 * the lines and chains that must come out are written there. */
#include "unit.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dwarf_lines.h"
#include "elf_image.h"

struct expected {
    const char *label;
    const char *position; /* as `written` has it */
};

static const struct expected compiled[] = {
    {"at_innermost",
     "chain.h:12 innermost (chain.h:10)<-chain.h:22 middle (chain.h:20)<-inlined.c:32 in "
     "outer (inlined.c:30)"},
    {"at_middle", "chain.h:23 middle (chain.h:20)<-inlined.c:32 in outer (inlined.c:30)"},
    {"at_outer", "inlined.c:33 in outer (inlined.c:30)"},
    {"at_named", "inlined.c:42 in linkage_name_of_named (inlined.c:40)"},
    {"at_numbered_1",
     "inlined.c:52 numbered (inlined.c:50)<-inlined.c:62 in calls_twice (inlined.c:60)"},
    {"at_numbered_2",
     "inlined.c:52 numbered (inlined.c:50)<-inlined.c:63 in calls_twice (inlined.c:60)"},
    {"at_apart", "inlined.c:72 in apart (inlined.c:70)"},
    {"at_nested", "inlined.c:84 in nested (inlined.c:82)"},
    {"at_around", "inlined.c:88 in around (inlined.c:80)"},
};
#define N_COMPILED (sizeof compiled / sizeof compiled[0])

static const struct expected by_hand[] = {
    {"at_start", "by_hand.c:12 in inside (?:0)"},
    {"at_inlined", "by_hand.c:22 linkage_name (?:0)<-by_hand.c:13 in inside (?:0)"},
};
#define N_BY_HAND (sizeof by_hand / sizeof by_hand[0])

/* The labels' addresses in a library: each is laid out in its own way. */
static void labels_of(const char *path, const struct expected *expected, size_t n,
                      uint64_t *addresses)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    for (size_t i = 0; i < n; i++) {
        Dl_info info;
        void *label = dlsym(library, expected[i].label);
        assert_non_null(label);
        assert_int_not_equal(dladdr(label, &info), 0);
        addresses[i] = (uint64_t)((char *)label - (char *)info.dli_fbase);
    }
    dlclose(library);
}

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "?";
}

/* FILE:LINE FUNCTION (FILE:LINE)<-FILE:LINE ... in FUNCTION (FILE:LINE) */
static const char *written(const struct source_position *position)
{
    static char text[512];
    int n = snprintf(text, sizeof text, "%s:%u", base_name(position->file), position->line);
    for (const struct inlined_call *call = position->inlined; call; call = call->caller)
        n += snprintf(text + n, sizeof text - (size_t)n, " %s (%s:%u)<-%s:%u", call->function.name,
                      base_name(call->function.file), call->function.line,
                      base_name(call->call_file), call->call_line);
    snprintf(text + n, sizeof text - (size_t)n, " in %s (%s:%u)", position->function.name,
             base_name(position->function.file), position->function.line);
    return position->found ? text : "not found";
}

/* Opens `path`, whose code is that of the library `code`, and looks all labels up. */
static void check(const char *path, const char *code, const struct expected *expected, size_t n)
{
    struct source_position positions[N_COMPILED];
    uint64_t addresses[N_COMPILED];
    struct dwarf_lines *lines;

    assert_true(n <= N_COMPILED);
    labels_of(code, expected, n, addresses);
    assert_int_equal(dwarf_lines_new(&lines, path, NULL, "", 0), 0);
    assert_int_equal(dwarf_lines_find(lines, addresses, n, positions), 0);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(written(&positions[i]), expected[i].position);
    dwarf_lines_free(lines);
}

static void check_compiled(const char *path, const char *code)
{
    check(path, code, compiled, N_COMPILED);
}

static void dwarf_5_gives_each_label_its_line_and_chain(void **state)
{
    (void)state;
    check_compiled(FIXTURES "/dwarf5.so", FIXTURES "/dwarf5.so");
}

static void so_does_dwarf_4(void **state)
{
    (void)state;
    check_compiled(FIXTURES "/dwarf4.so", FIXTURES "/dwarf4.so");
}

static void so_do_compressed_sections(void **state)
{
    (void)state;
    check_compiled(FIXTURES "/packed.so", FIXTURES "/packed.so");
    check_compiled(FIXTURES "/packed_gnu.so", FIXTURES "/packed_gnu.so");
}

static void so_does_a_split_debug_file(void **state)
{
    (void)state;
    check_compiled(FIXTURES "/stripped.so", FIXTURES "/stripped.so");
    check_compiled(FIXTURES "/split.debug", FIXTURES "/stripped.so");
}

static void so_do_units_known_by_aranges_and_functions_in_namespaces(void **state)
{
    (void)state;
    check(FIXTURES "/by_hand.so", FIXTURES "/by_hand.so", by_hand, N_BY_HAND);
}

static void paths_are_relative_to_the_unit_s_directory(void **state)
{
    (void)state;
    struct source_position position;
    uint64_t addresses[N_COMPILED];
    struct dwarf_lines *lines;

    labels_of(FIXTURES "/dwarf5.so", compiled, N_COMPILED, addresses);
    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/dwarf5.so", NULL, "", 0), 0);
    assert_int_equal(dwarf_lines_find(lines, addresses, 1, &position), 0);
    assert_int_equal(position.directory[0], '/');
    assert_string_equal(position.file, "headers/chain.h");
    assert_string_equal(position.inlined->call_file, "headers/chain.h");
    dwarf_lines_free(lines);
}

static void what_no_unit_covers_is_not_found(void **state)
{
    (void)state;
    const uint64_t addresses[] = {UINT64_MAX, 0, 1, 0x40, 1ULL << 40};
    struct source_position positions[5];
    struct dwarf_lines *lines;

    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/dwarf5.so", NULL, "", 0), 0);
    assert_int_equal(dwarf_lines_find(lines, addresses, 5, positions), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(positions[i].found, 0);
    assert_int_equal(dwarf_lines_find(lines, NULL, 0, NULL), 0);
    dwarf_lines_free(lines);
}

static void order_and_repetition_do_not_matter(void **state)
{
    (void)state;
    struct source_position positions[3 * N_COMPILED];
    uint64_t addresses[N_COMPILED], shuffled[3 * N_COMPILED];
    struct dwarf_lines *lines;

    labels_of(FIXTURES "/dwarf4.so", compiled, N_COMPILED, addresses);
    for (size_t i = 0; i < 3 * N_COMPILED; i++)
        shuffled[i] = addresses[i * 7 % N_COMPILED];
    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/dwarf4.so", NULL, "", 0), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(dwarf_lines_find(lines, shuffled, 3 * N_COMPILED, positions), 0);
        for (size_t i = 0; i < 3 * N_COMPILED; i++)
            assert_string_equal(written(&positions[i]), compiled[i * 7 % N_COMPILED].position);
    }
    dwarf_lines_free(lines);
}

static void a_file_of_another_build_is_refused(void **state)
{
    (void)state;
    struct elf_image image = {0};
    char build_id[ELF_BUILD_ID_HEX];
    struct dwarf_lines *lines;

    assert_int_equal(elf_image_open(&image, FIXTURES "/dwarf5.so"), 0);
    elf_image_build_id(&image, build_id);
    elf_image_close(&image);
    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/dwarf5.so", build_id, "", 0), 0);
    dwarf_lines_free(lines);
    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/dwarf4.so", build_id, "", 0), -ESTALE);
    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/unnamed.so", build_id, "", 0), -ESTALE);
}

static void errors_say_what_is_missing(void **state)
{
    (void)state;
    struct dwarf_lines *lines;

    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/unlinked.so", NULL, "", 0), -ENODATA);
    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/nonexistent.so", NULL, "", 0), -ENOENT);
    assert_int_equal(dwarf_lines_new(&lines, FIXTURES, NULL, "", 0), -EISDIR);
    assert_int_equal(dwarf_lines_new(&lines, __FILE__, NULL, "", 0), -ENOEXEC);
}

/* Opens a copy of a library whose compressed sections claim to hold `unpacked` bytes: that
 * number stands behind `mark` in each, and zlib's stream, which begins with 0x78, at `stream`.
 * 1 if there are none. */
static int open_with_sizes(const char *library, const char *mark, size_t mark_size, int stream,
                           uint64_t unpacked)
{
    char path[] = "/tmp/pyhybrid-test-XXXXXX", bytes[65536];
    FILE *file = fopen(library, "rb");
    int fd = mkstemp(path), r, n = 0;
    struct dwarf_lines *lines;

    assert_true(file && fd >= 0);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (char *at = bytes; (at = memmem(at, (size_t)(bytes + size - at), mark, mark_size)); at++) {
        if (at[stream] != 0x78)
            continue;
        memcpy(at + mark_size, &unpacked, sizeof unpacked);
        n++;
    }
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
    r = dwarf_lines_new(&lines, path, NULL, "", 0);
    if (r == 0)
        dwarf_lines_free(lines);
    unlink(path);
    return n ? r : 1;
}

static void more_than_the_limit_is_refused(void **state)
{
    (void)state;
    static const char *const paths[] = {FIXTURES "/dwarf5.so", FIXTURES "/stripped.so",
                                        FIXTURES "/packed.so", FIXTURES "/packed_gnu.so"};
    struct dwarf_lines *lines;

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(dwarf_lines_new(&lines, paths[i], NULL, "", 100), -EFBIG);
        assert_int_equal(dwarf_lines_new(&lines, paths[i], NULL, "", 1 << 20), 0);
        dwarf_lines_free(lines);
    }
    assert_int_equal(dwarf_lines_new(&lines, FIXTURES "/unlinked.so", NULL, "", 100), -ENODATA);
}

static void what_would_fill_the_memory_is_refused(void **state)
{
    (void)state;
    static const char chdr[8] = {ELFCOMPRESS_ZLIB}; /* type, and the reserved word */
    const char *packed = FIXTURES "/packed.so", *packed_gnu = FIXTURES "/packed_gnu.so";
    struct stat st;

    assert_int_equal(stat(packed_gnu, &st), 0);
    uint64_t most = 64 * (uint64_t)st.st_size;
    if (open_with_sizes(packed_gnu, "ZLIB", 4, 12, 0) != 1) { /* newer linkers pack otherwise */
        assert_int_equal(open_with_sizes(packed_gnu, "ZLIB", 4, 12, htobe64(2 * most)), -EBADMSG);
        assert_int_equal(open_with_sizes(packed_gnu, "ZLIB", 4, 12, htobe64(most / 64)), 0);
        assert_int_equal(open_with_sizes(packed_gnu, "ZLIB", 4, 12, UINT64_MAX), -EBADMSG);
    }
    assert_int_equal(open_with_sizes(packed, chdr, sizeof chdr, sizeof(Elf64_Chdr), UINT64_MAX),
                     -EBADMSG);
}

/* Looks everything up in a file that may be damaged; that it comes back is all that is asked. */
static void look_around(const char *path, uint64_t size, const uint64_t *labels)
{
    struct source_position positions[N_COMPILED + 64];
    uint64_t addresses[N_COMPILED + 64];
    struct dwarf_lines *lines;

    if (dwarf_lines_new(&lines, path, NULL, "", 0) != 0)
        return;
    memcpy(addresses, labels, N_COMPILED * sizeof *labels);
    for (uint64_t i = 0; i < 64; i++)
        addresses[N_COMPILED + i] = i * size / 64;
    assert_int_equal(dwarf_lines_find(lines, addresses, N_COMPILED + 64, positions), 0);
    for (size_t i = 0; i < N_COMPILED + 64; i++)
        assert_non_null(written(&positions[i]));
    dwarf_lines_free(lines);
}

static void damage(const char *library, int times)
{
    uint64_t random = 1, labels[N_COMPILED];
    char path[] = "/tmp/pyhybrid-test-XXXXXX";
    char bytes[65536], damaged[65536];
    FILE *file = fopen(library, "rb");
    int fd = mkstemp(path);

    assert_true(file && fd >= 0);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_in_range(size, 1, sizeof bytes - 1);
    labels_of(library, compiled, N_COMPILED, labels);
    for (int i = 0; i < times; i++) {
        size_t length = i % 8 ? size : unit_random(&random) % size;

        memcpy(damaged, bytes, size);
        for (uint64_t n = unit_random(&random) % 32; n > 0; n--)
            damaged[unit_random(&random) % size] = (char)unit_random(&random);
        assert_int_equal(ftruncate(fd, (off_t)length), 0);
        assert_int_equal(pwrite(fd, damaged, length, 0), length);
        look_around(path, size, labels);
    }
    close(fd);
    unlink(path);
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    damage(FIXTURES "/dwarf4.so", 400);
    damage(FIXTURES "/dwarf5.so", 400);
    damage(FIXTURES "/packed.so", 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dwarf_5_gives_each_label_its_line_and_chain),
        cmocka_unit_test(so_does_dwarf_4),
        cmocka_unit_test(so_do_compressed_sections),
        cmocka_unit_test(so_does_a_split_debug_file),
        cmocka_unit_test(so_do_units_known_by_aranges_and_functions_in_namespaces),
        cmocka_unit_test(paths_are_relative_to_the_unit_s_directory),
        cmocka_unit_test(what_no_unit_covers_is_not_found),
        cmocka_unit_test(order_and_repetition_do_not_matter),
        cmocka_unit_test(a_file_of_another_build_is_refused),
        cmocka_unit_test(errors_say_what_is_missing),
        cmocka_unit_test(more_than_the_limit_is_refused),
        cmocka_unit_test(what_would_fill_the_memory_is_refused),
        cmocka_unit_test(damaged_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
