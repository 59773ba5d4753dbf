/* fuzz_symbols.c - damaged ELF files under the reader of symbols (symbolize.h): the file itself, and as the debug file
 * of a whole one.  libelf takes part; liblzma where the file has `.gnu_debugdata`. */
#include "input.h"
#include "symbolize.h"

#include <stdlib.h>
#include <string.h>

#define STRIPPED "stripped.so" /* whole, and DEBUG_ROOTS have its debug file: the input */
#define BYTES_PER_BYTE 24
#define BYTES_AT_LEAST (1u << 20)
/* What debugdata.c allows, twice while its buffer grows, and symbols from it; and the decoder's own. */
#define UNPACKED_PER_BYTE (64u * BYTES_PER_BYTE)
#define UNPACKED_AT_LEAST ((size_t)BYTES_PER_BYTE << 20)
#define DECODER_BYTES ((size_t)80 << 20)

static size_t memory_limit(const uint8_t *bytes, size_t size)
{
    static const char debugdata[] = ".gnu_debugdata";
    size_t limit = BYTES_AT_LEAST + BYTES_PER_BYTE * size;

    if (memmem(bytes, size, debugdata, sizeof(debugdata)))
        limit += DECODER_BYTES + UNPACKED_AT_LEAST + UNPACKED_PER_BYTE * size;
    return limit;
}

/* Reads all of the name: ASan tells if it is not there. */
static void demangle(const struct symbol *found)
{
    char *name = strndup(found->name, found->name_length);

    INPUT_CHECK(name);
    free(symbol_demangle(name));
    free(name);
}

/* What is found by the symbols that matter is what is found by all. */
static void compare_all(struct elf_symbols *symbols, const uint64_t *addresses)
{
    struct symbol all[N_ADDRESSES], found;

    if (elf_symbols_find_all(symbols, addresses, N_ADDRESSES, all) != 0)
        return;
    for (size_t i = 0; i < N_ADDRESSES; i++) {
        if (elf_symbols_find(symbols, addresses[i], &found) != 1) {
            INPUT_CHECK(!all[i].name);
            continue;
        }
        INPUT_CHECK(all[i].name == found.name && all[i].name_length == found.name_length);
        INPUT_CHECK(all[i].start == found.start && all[i].size == found.size);
        INPUT_CHECK(all[i].source == found.source);
    }
}

static void read_file(const char *path, const uint64_t *addresses)
{
    struct elf_symbols *symbols;
    struct symbol found;

    if (elf_symbols_new(&symbols, path, NULL, DEBUG_ROOTS) != 0)
        return;
    compare_all(symbols, addresses);
    for (size_t i = 0; i < N_ADDRESSES; i++) {
        if (elf_symbols_find(symbols, addresses[i], &found) != 1)
            continue;
        INPUT_CHECK(found.name_length > 0);
        INPUT_CHECK(found.start <= addresses[i] && addresses[i] - found.start < found.size);
        INPUT_CHECK(found.source < N_SOURCES);
        demangle(&found);
    }
    elf_symbols_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint64_t addresses[N_ADDRESSES];

    input_addresses(bytes, size, addresses);
    input_write(bytes, size);
    input_count_memory();
    read_file(INPUT_PATH, addresses);
    input_check_memory(memory_limit(bytes, size));
    read_file(STRIPPED, addresses);
    return 0;
}
