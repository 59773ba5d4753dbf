/* demangle.c - the one file that knows libstdc++, and of it one function of the C++ ABI. */
#include "symbolize.h"

#include <string.h>

/* Itanium C++ ABI, <cxxabi.h>, which C cannot include. */
extern char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

char *symbol_demangle(const char *name)
{
    int status;

    /* __cxa_demangle also reads bare types: it would turn a C function `f` into "float". */
    if (strncmp(name, "_Z", 2) != 0)
        return NULL;
    return __cxa_demangle(name, NULL, NULL, &status);
}
