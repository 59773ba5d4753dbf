/* Folders are made as a debugger expects them, out of files that the build made from inlined.c:
 * stripped.so and its debug file split.debug; the same two without a build-id, unnamed. */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debug_file.h"

static char folder[PATH_MAX]; /* of one case: the stripped file is in it, `root` is below it */
static char roots[2 * PATH_MAX];

static const char *in_folder(const char *name)
{
    static char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void write_file(const char *name, const char *bytes, size_t size)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* The folders of a path below the case's folder. */
static void make_folders(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", name);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(in_folder(path), 0700);
        *slash = '/';
    }
}

static void put(const char *fixture, const char *name)
{
    char path[PATH_MAX];
    size_t size;
    snprintf(path, sizeof path, FIXTURES "/%s", fixture);
    char *bytes = read_file(path, &size);
    make_folders(name);
    write_file(name, bytes, size);
    free(bytes);
}

static void change_byte(const char *name, size_t from_end, char change)
{
    size_t size;
    char *bytes = read_file(in_folder(name), &size);
    bytes[size - from_end] ^= change;
    write_file(name, bytes, size);
    free(bytes);
}

/* Changes what is in no section and no header that is read: the last section's alignment. */
static void spoil(const char *name)
{
    change_byte(name, 1, 1);
}

static void make_relocatable(const char *name)
{
    size_t size;
    free(read_file(in_folder(name), &size));
    change_byte(name, size - offsetof(Elf64_Ehdr, e_type), ET_DYN ^ ET_REL);
}

static int set_up(void **state)
{
    (void)state;
    const char *temporary = getenv("TMPDIR");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/pyhybrid-test-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(path) || !realpath(path, folder))
        return -1;
    snprintf(roots, sizeof roots, "/nonexistent:%s/root", folder);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)type, (void)where;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* What is found for a file: a path below the folder, or NULL. */
static const char *found_by(__typeof__(debug_file_find) *find, const char *name)
{
    static char relative[PATH_MAX];
    struct elf_image image = {0};
    char *found = NULL;

    assert_int_equal(elf_image_open(&image, in_folder(name)), 0);
    int r = find(&image, in_folder(name), roots, &found);
    elf_image_close(&image);
    if (r) {
        assert_int_equal(r, -ENOENT);
        return NULL;
    }
    assert_memory_equal(found, folder, strlen(folder));
    snprintf(relative, sizeof relative, "%s", found + strlen(folder) + 1);
    free(found);
    return relative;
}

static const char *found_for(const char *name)
{
    return found_by(debug_file_find, name);
}

static const char *build_id_path(const char *name)
{
    static char path[PATH_MAX];
    struct elf_image image = {0};
    char id[ELF_BUILD_ID_HEX];

    assert_int_equal(elf_image_open(&image, in_folder(name)), 0);
    elf_image_build_id(&image, id);
    elf_image_close(&image);
    assert_int_not_equal(id[0], 0);
    snprintf(path, sizeof path, "root/.build-id/%.2s/%s.debug", id, id + 2);
    return path;
}

static void it_is_found_by_build_id_before_any_link(void **state)
{
    (void)state;
    put("stripped.so", "stripped.so");
    put("split.debug", "split.debug");
    put("split.debug", build_id_path("stripped.so"));
    assert_string_equal(found_for("stripped.so"), build_id_path("stripped.so"));
}

static void a_file_with_another_build_id_in_that_place_is_not_it(void **state)
{
    (void)state;
    put("stripped.so", "stripped.so");
    put("dwarf4.so", build_id_path("stripped.so"));
    assert_null(found_for("stripped.so"));
}

static void a_file_without_a_build_id_in_that_place_is_not_it(void **state)
{
    (void)state;
    put("stripped.so", "stripped.so");
    put("unnamed.debug", build_id_path("stripped.so"));
    assert_null(found_for("stripped.so"));
}

static void it_is_found_by_its_link_nearest_first(void **state)
{
    (void)state;
    char below_root[2 * PATH_MAX];
    snprintf(below_root, sizeof below_root, "root%s/split.debug", folder);

    put("stripped.so", "stripped.so");
    assert_null(found_for("stripped.so"));
    put("split.debug", below_root);
    assert_string_equal(found_for("stripped.so"), below_root);
    put("split.debug", ".debug/split.debug");
    assert_string_equal(found_for("stripped.so"), ".debug/split.debug");
    put("split.debug", "split.debug");
    assert_string_equal(found_for("stripped.so"), "split.debug");
}

static void the_folder_is_that_of_the_file_itself_not_of_a_symbolic_link(void **state)
{
    (void)state;
    char target[2 * PATH_MAX];
    put("stripped.so", "real/stripped.so");
    put("split.debug", "real/split.debug");
    snprintf(target, sizeof target, "%s", in_folder("real/stripped.so"));
    assert_int_equal(symlink(target, in_folder("link.so")), 0);
    assert_string_equal(found_for("link.so"), "real/split.debug");
}

static void without_a_build_id_the_checksum_decides(void **state)
{
    (void)state;
    put("unnamed_stripped.so", "unnamed_stripped.so");
    put("unnamed.debug", "unnamed.debug");
    assert_string_equal(found_for("unnamed_stripped.so"), "unnamed.debug");
    spoil("unnamed.debug");
    assert_null(found_for("unnamed_stripped.so"));
}

static void a_wrong_checksum_is_refused_even_with_the_right_build_id(void **state)
{
    (void)state;
    put("stripped.so", "stripped.so");
    put("split.debug", "split.debug");
    spoil("split.debug");
    assert_null(found_for("stripped.so"));
}

static void a_wrong_build_id_is_refused_even_with_the_right_checksum(void **state)
{
    (void)state;
    put("mislinked.so", "mislinked.so"); /* links to the debug file of another build */
    put("split.debug", "split.debug");
    assert_null(found_for("mislinked.so"));
}

static void what_is_no_elf_file_is_passed_over(void **state)
{
    (void)state;
    put("stripped.so", "stripped.so");
    write_file("split.debug", "", 0);
    make_folders(".debug/split.debug/");
    assert_null(found_for("stripped.so"));
}

static void a_file_that_names_no_debug_file_has_none(void **state)
{
    (void)state;
    put("unlinked.so", "unlinked.so");
    assert_null(found_for("unlinked.so"));
}

static void an_alternate_is_found_by_build_id_or_beside_the_file(void **state)
{
    (void)state;
    put("with_alternate.so", "with_alternate.so");
    put("dwarf4.so", "alternate/split.debug");
    assert_null(found_by(debug_file_find_alternate, "with_alternate.so"));
    put("split.debug", "alternate/split.debug");
    make_relocatable("alternate/split.debug");
    assert_string_equal(found_by(debug_file_find_alternate, "with_alternate.so"),
                        "alternate/split.debug");
    put("split.debug", "root/.build-id/00/112233445566778899aabbccddeeff.debug");
    assert_string_equal(found_by(debug_file_find_alternate, "with_alternate.so"),
                        "root/.build-id/00/112233445566778899aabbccddeeff.debug");
    put("stripped.so", "stripped.so");
    assert_null(found_by(debug_file_find_alternate, "stripped.so"));
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    uint64_t random = 1;
    size_t size;
    put("with_alternate.so", "with_alternate.so");
    put("stripped.so", "stripped.so");
    put("split.debug", "split.debug");
    char *bytes = read_file(in_folder("with_alternate.so"), &size), *damaged = malloc(size);

    for (int i = 0; i < 500; i++) {
        struct elf_image image = {0};
        char *found = NULL;
        size_t length = i % 5 ? size : unit_random(&random) % size;

        memcpy(damaged, bytes, size);
        for (uint64_t n = unit_random(&random) % 64; n > 0; n--)
            damaged[unit_random(&random) % size] = (char)unit_random(&random);
        write_file("damaged.so", damaged, length);
        if (elf_image_open(&image, in_folder("damaged.so")) == 0) {
            debug_file_find(&image, in_folder("damaged.so"), roots, &found);
            free(found);
            found = NULL;
            debug_file_find_alternate(&image, in_folder("damaged.so"), roots, &found);
            free(found);
        }
        elf_image_close(&image);
    }
    free(bytes);
    free(damaged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(it_is_found_by_build_id_before_any_link),
        CASE(a_file_with_another_build_id_in_that_place_is_not_it),
        CASE(a_file_without_a_build_id_in_that_place_is_not_it),
        CASE(it_is_found_by_its_link_nearest_first),
        CASE(the_folder_is_that_of_the_file_itself_not_of_a_symbolic_link),
        CASE(without_a_build_id_the_checksum_decides),
        CASE(a_wrong_checksum_is_refused_even_with_the_right_build_id),
        CASE(a_wrong_build_id_is_refused_even_with_the_right_checksum),
        CASE(what_is_no_elf_file_is_passed_over),
        CASE(a_file_that_names_no_debug_file_has_none),
        CASE(an_alternate_is_found_by_build_id_or_beside_the_file),
        CASE(damaged_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
