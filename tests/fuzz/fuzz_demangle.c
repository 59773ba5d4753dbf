/* fuzz_demangle.c - damaged names of C++ and Rust: the readable form may be exponentially longer. */
#include "input.h"
#include "symbolize.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_AT_MOST (1u << 17)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *name = malloc(size + 2);

    INPUT_CHECK(name);
    name[0] = '_'; /* then Z or R, in what is of use */
    memcpy(name + 1, bytes, size);
    name[1 + size] = '\0';
    input_count_memory();
    free(symbol_demangle(name));
    input_check_memory(BYTES_AT_MOST);
    free(name);
    return 0;
}
