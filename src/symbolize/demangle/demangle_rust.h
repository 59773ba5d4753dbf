/* demangle_rust.h - names of Rust functions, both manglings.
 */
#ifndef PYH_DEMANGLE_RUST_H
#define PYH_DEMANGLE_RUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- demangle_rust_text.c ------------------------------------------------------------------------ */

/* Grows up to `size`; beyond that it is `full`, and what comes is dropped. */
struct rust_text {
    char *bytes; /* not NUL-terminated */
    size_t length, size;
    bool full;
};

/* Returns the value of a lower-case digit; -1 for what is none. */
static inline int rust_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void rust_text_put(struct rust_text *t, const char *bytes, size_t length);

/* Appends UTF-8; returns false if it is no Unicode scalar value. */
bool rust_text_put_char(struct rust_text *t, uint32_t code_point);

/* Appends a Punycode identifier (RFC 3492, with "_" for "-"); returns false if it is none, or longer than
 * anybody's. */
bool rust_text_put_punycode(struct rust_text *t, const char *bytes, size_t length);

/* --- demangle_rust.c ----------------------------------------------------------------------------- */

enum { RUST_NAME_BYTES = 1 << 16, RUST_SYMBOL_BYTES = 1 << 14 };

/* Returns the readable form, for the caller to free(); NULL for what is no Rust symbol, or out of memory. */
char *rust_demangle(const char *name);

/* The two schemes, of which rust_demangle() takes the one that fits: they return false if `name` is not of it. */
bool rust_demangle_v0(const char *name, struct rust_text *out);
bool rust_demangle_legacy(const char *name, struct rust_text *out);

/* --- demangle_rust_parser.c ---------------------------------------------------------------------- */

struct v0_parser {
    const char *symbol; /* after the "_R" */
    size_t length, at;
    struct rust_text *out;
    bool failed;
    bool silent; /* parse, but write nothing and follow no back reference */
    unsigned depth, steps;
    uint64_t n_bound; /* lifetimes of the binders around */
};

struct v0_identifier {
    uint64_t disambiguator;
    const char *bytes;
    size_t length;
    bool is_punycode;
};

char v0_peek(const struct v0_parser *p); /* '\0' at the end, or after a fault */
bool v0_eat(struct v0_parser *p, char c);
char v0_next(struct v0_parser *p);

/* Each rule that can recurse is between these two; where v0_enter() returns false, it returns at once. */
bool v0_enter(struct v0_parser *p);
void v0_leave(struct v0_parser *p);

int v0_digit(char c); /* in base 62; -1 for none */
uint64_t v0_base62(struct v0_parser *p);
/* Returns the number after `tag`, which counts from one; 0 without it. */
uint64_t v0_optional_base62(struct v0_parser *p, char tag);

struct v0_identifier v0_undisambiguated(struct v0_parser *p);
struct v0_identifier v0_identifier(struct v0_parser *p);
void v0_put_identifier(struct v0_parser *p, const struct v0_identifier *id);

/* Writes `for<'a, 'b> `; returns how many lifetimes it binds, for the caller to release. */
uint64_t v0_binder(struct v0_parser *p);
/* `index` counts binders' lifetimes from the innermost, 1 being the first; 0 is an erased one. */
void v0_put_lifetime(struct v0_parser *p, uint64_t index);

void v0_put(struct v0_parser *p, const char *text);
void v0_put_bytes(struct v0_parser *p, const char *bytes, size_t length);
void v0_put_number(struct v0_parser *p, uint64_t number);

#endif
