/* debug_file.c - looking for split debug files (see debug_file.h); the one file that knows zlib. */
#include "debug_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct wanted { /* what a candidate must be */
    const char *build_id;
    int needs_build_id; /* it must have one; otherwise only none other */
    const uint32_t *crc;
    int is_alternate;
};

static uint32_t crc_of(const struct elf_image *image)
{
    return (uint32_t)crc32_z(0, (const Bytef *)image->bytes, image->size);
}

static int fits(const char *path, const struct wanted *wanted)
{
    struct elf_image image = {0};
    char build_id[ELF_BUILD_ID_HEX];
    int fit = (wanted->is_alternate ? elf_image_open_any : elf_image_open)(&image, path) == 0;

    if (fit) {
        elf_image_build_id(&image, build_id);
        fit = build_id[0] && wanted->build_id[0] ? strcmp(build_id, wanted->build_id) == 0
                                                 : !wanted->needs_build_id;
    }
    fit = fit && (!wanted->crc || crc_of(&image) == *wanted->crc);
    elf_image_close(&image);
    return fit;
}

/* Takes the path, malloc's or NULL: 1 and *out if a file that fits is there, 0, or -ENOMEM. */
static int try_path(char *path, const struct wanted *wanted, char **out)
{
    if (!path)
        return -ENOMEM;
    if (fits(path, wanted)) {
        *out = path;
        return 1;
    }
    free(path);
    return 0;
}

static char *join(const char *root, int root_length, const char *folder, const char *between,
                  const char *name)
{
    char *path;

    return asprintf(&path, "%.*s%s%s%s", root_length, root, folder, between, name) < 0 ? NULL
                                                                                       : path;
}

/* Walks the list of roots: the next one and its length, or NULL.  Starts with *length = 0. */
static const char *next_root(const char *root, int *length)
{
    root += *length;
    root += strspn(root, ":");
    *length = (int)strcspn(root, ":");
    return *length ? root : NULL;
}

static int find_by_build_id(const struct wanted *wanted, const char *roots, char **out)
{
    const char *build_id = wanted->build_id;
    char name[sizeof("/ab/.debug") + ELF_BUILD_ID_HEX];
    int length = 0, r = 0;

    if (strlen(build_id) <= 2)
        return 0;
    snprintf(name, sizeof(name), "/%.2s/%s.debug", build_id, build_id + 2);
    for (const char *root = roots; r == 0 && (root = next_root(root, &length));)
        r = try_path(join(root, length, "", "/.build-id", name), wanted, out);
    return r;
}

/* The folder of the file itself, without the last slash, for the caller to free(). */
static int folder_of(const char *path, char **out)
{
    *out = realpath(path, NULL);
    if (!*out)
        return -errno;
    *strrchr(*out, '/') = '\0';
    return 0;
}

/* `.gnu_debuglink`: a file name, zeros up to a multiple of 4, the CRC-32 of the file. */
static const char *read_link(const struct elf_image *image, uint32_t *crc)
{
    const char *bytes;
    size_t size =
        elf_image_bytes(image, elf_image_find(image, SHT_PROGBITS, ".gnu_debuglink"), &bytes);
    size_t length = size ? strnlen(bytes, size) : 0, at = (length + 4) & ~(size_t)3;

    if (length == 0 || length > NAME_MAX || at > size || size - at < sizeof(*crc) ||
        memchr(bytes, '/', length))
        return NULL;
    memcpy(crc, bytes + at, sizeof(*crc));
    return bytes;
}

static int find_by_link(const struct elf_image *image, const char *build_id, const char *path,
                        const char *roots, char **out)
{
    uint32_t crc;
    const char *name = read_link(image, &crc);
    struct wanted wanted = {.build_id = build_id, .crc = &crc};
    int length = 0, r;
    char *folder;

    if (!name)
        return 0;
    r = folder_of(path, &folder);
    if (r)
        return r;
    r = try_path(join("", 0, folder, "/", name), &wanted, out);
    r = r ? r : try_path(join("", 0, folder, "/.debug/", name), &wanted, out);
    for (const char *root = roots; r == 0 && (root = next_root(root, &length));)
        r = try_path(join(root, length, folder, "/", name), &wanted, out);
    free(folder);
    return r;
}

static int answer(int found)
{
    return found > 0 ? 0 : found == 0 ? -ENOENT : found;
}

int debug_file_find(const struct elf_image *image, const char *path, const char *roots, char **out)
{
    char build_id[ELF_BUILD_ID_HEX];
    struct wanted wanted = {.build_id = build_id, .needs_build_id = 1};
    int r;

    elf_image_build_id(image, build_id);
    r = find_by_build_id(&wanted, roots, out);
    return answer(r ? r : find_by_link(image, build_id, path, roots, out));
}

int debug_file_find_alternate(const struct elf_image *image, const char *path, const char *roots,
                              char **out)
{
    const char *name;
    size_t size =
        elf_image_bytes(image, elf_image_find(image, SHT_PROGBITS, ".gnu_debugaltlink"), &name);
    size_t length = size ? strnlen(name, size) : 0;
    char build_id[ELF_BUILD_ID_HEX], *folder = NULL;
    struct wanted wanted = {.build_id = build_id, .needs_build_id = 1, .is_alternate = 1};
    int r;

    if (length == 0 || length > PATH_MAX || length + 1 >= size ||
        size - length - 1 > ELF_BUILD_ID_MAX)
        return -ENOENT;
    elf_build_id_hex(name + length + 1, size - length - 1, build_id);
    r = find_by_build_id(&wanted, roots, out);
    if (r == 0 && name[0] != '/')
        r = folder_of(path, &folder);
    if (r == 0)
        r = try_path(join("", 0, folder ? folder : "", folder ? "/" : "", name), &wanted, out);
    free(folder);
    return answer(r);
}
