/* fuzz_demangle.c - damaged C++ names: the readable form may be exponentially longer. */
#include "input.h"
#include "symbolize/symbolize.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_AT_MOST (1u << 17)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *name = malloc(size + 3);

    INPUT_CHECK(name);
    memcpy(name, "_Z", 2);
    memcpy(name + 2, bytes, size);
    name[2 + size] = '\0';
    input_count_memory();
    free(symbol_demangle(name));
    input_check_memory(BYTES_AT_MOST);
    free(name);
    return 0;
}
