/* fuzz_lines.c - damaged DWARF under the reader of source lines (dwarf_lines.h).  Decoding is libdw's, which is not
 * built with sanitizers: of its errors only those show that end the program, or that the C library sees. */
#include "input.h"
#include "dwarf_lines.h"

#include <string.h>

#define BYTES_PER_BYTE 512 /* of the file: libdw's rows of lines, of sections that it unpacks */
#define BYTES_AT_LEAST (4u << 20)

static size_t length(const char *text)
{
    return text ? strlen(text) : 0;
}

static size_t read_function(const struct source_function *function)
{
    return length(function->name) + length(function->file);
}

/* All that the answer points to is there. */
static size_t read_position(const struct source_position *position)
{
    size_t n = length(position->directory) + length(position->file);

    n += read_function(&position->function);

    for (const struct inlined_call *call = position->inlined; call; call = call->caller)
        n += read_function(&call->function) + length(call->call_file);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static volatile size_t sink;
    uint64_t addresses[N_ADDRESSES];
    struct source_position positions[N_ADDRESSES];
    struct dwarf_lines *lines;

    input_addresses(bytes, size, addresses);
    input_write(bytes, size);
    input_count_memory();
    if (dwarf_lines_new(&lines, INPUT_PATH, NULL, DEBUG_ROOTS, 0) == 0) {
        if (dwarf_lines_find(lines, addresses, N_ADDRESSES, positions) == 0)
            for (size_t i = 0; i < N_ADDRESSES; i++)
                sink += read_position(&positions[i]);
        dwarf_lines_free(lines);
    }
    input_check_memory(BYTES_AT_LEAST + BYTES_PER_BYTE * size);
    return 0;
}
