/* demangle_rust_text.h - the bounded text that a Rust symbol's readable form is written to. */
#ifndef PYH_DEMANGLE_RUST_TEXT_H
#define PYH_DEMANGLE_RUST_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Grows up to `size`; beyond that it is `full`, and what comes is dropped. */
struct rust_text {
    char *bytes; /* not NUL-terminated */
    size_t length, size;
    bool full;
};

/* Of a lower-case digit; -1 for what is none. */
static inline int rust_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void rust_text_put(struct rust_text *t, const char *bytes, size_t length);

/* Appends UTF-8; false if it is no Unicode scalar value. */
bool rust_text_put_char(struct rust_text *t, uint32_t code_point);

/* Appends a Punycode identifier (RFC 3492, with "_" for "-"); false if it is none, or longer than
 * anybody's. */
bool rust_text_put_punycode(struct rust_text *t, const char *bytes, size_t length);

#endif
