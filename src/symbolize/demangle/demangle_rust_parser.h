/* demangle_rust_parser.h - what the rules of Rust's v0 grammar are written with: reading, writing,
 * bounds.
 *
 * A fault is sticky: after it the parser sees the end of the symbol everywhere, writes nothing more,
 * and so all rules return.  Back references make a symbol's text exponentially long, so there are
 * three bounds: of the text (rust_text), of the depth, and of the number of rules that are entered.
 */
#ifndef PYH_DEMANGLE_RUST_PARSER_H
#define PYH_DEMANGLE_RUST_PARSER_H

#include "demangle_rust_text.h"

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

/* Each rule that can recurse is between these two; v0_enter() false: it returns at once. */
bool v0_enter(struct v0_parser *p);
void v0_leave(struct v0_parser *p);

int v0_digit(char c); /* in base 62; -1 for none */
uint64_t v0_base62(struct v0_parser *p);
/* The number after `tag`, which counts from one; 0 without it. */
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
