/* demangle.c - the one file that knows libstdc++, and of it one function.
 *
 * A name can mean twice what it meant so far, again and again ("S_" stands for a part that came before): 300 bytes
 * are enough for 64 GiB.  __cxa_demangle() writes it all.  The function below it hands out what it writes
 * piece by piece, allocates nothing, and so can be left when it is too much; only libstdc++.a has it.
 */
#include "symbolize.h"

#include "demangle_rust.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define READABLE_LENGTH_MAX (1u << 16)

/* libiberty's cp-demangle.c, as it is in libstdc++: 0, or what is wrong. */
extern int __gcclibcxx_demangle_callback(const char *mangled,
                                         void (*append)(const char *, size_t, void *),
                                         void *context);

struct readable {
    size_t length;
    jmp_buf too_long;
    char text[READABLE_LENGTH_MAX];
};

static void append(const char *piece, size_t length, void *context)
{
    struct readable *r = context;

    if (length >= sizeof(r->text) - r->length)
        longjmp(r->too_long, 1);
    memcpy(r->text + r->length, piece, length);
    r->length += length;
}

char *symbol_demangle(const char *name)
{
    char *rust = rust_demangle(name); /* first: a legacy symbol is also a C++ one */
    struct readable r;

    if (rust)
        return rust;
    r.length = 0;
    /* The demangler also reads bare types: it would turn a C function `f` into "float". */
    if (strncmp(name, "_Z", 2) != 0 || setjmp(r.too_long) ||
        __gcclibcxx_demangle_callback(name, append, &r) != 0)
        return NULL;
    return strndup(r.text, r.length);
}
