/* demangle_rust_parser.c - what the rules of Rust's v0 grammar are written with: reading, writing,
 * bounds.
 *
 * A fault is sticky: after it the parser sees the end of the symbol everywhere, writes nothing more,
 * and so all rules return.  Back references make a symbol's text exponentially long, so there are
 * three bounds: of the text (rust_text), of the depth, and of the number of rules that are entered.
 */
#include "demangle_rust.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 300, MAX_STEPS = 1 << 18, MAX_BOUND = 1 << 16 };

char v0_peek(const struct v0_parser *p)
{
    return p->failed || p->at == p->length ? '\0' : p->symbol[p->at];
}

bool v0_eat(struct v0_parser *p, char c)
{
    if (v0_peek(p) != c)
        return false;
    p->at++;
    return true;
}

char v0_next(struct v0_parser *p)
{
    char c = v0_peek(p);

    if (c == '\0')
        p->failed = true;
    else
        p->at++;
    return c;
}

void v0_put_bytes(struct v0_parser *p, const char *bytes, size_t length)
{
    if (p->silent || p->failed)
        return;
    rust_text_put(p->out, bytes, length);
    p->failed = p->out->full;
}

void v0_put(struct v0_parser *p, const char *text)
{
    v0_put_bytes(p, text, strlen(text));
}

void v0_put_number(struct v0_parser *p, uint64_t number)
{
    char digits[21];

    v0_put_bytes(p, digits,
                 (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number));
}

bool v0_enter(struct v0_parser *p)
{
    if (++p->depth > MAX_DEPTH || ++p->steps > MAX_STEPS)
        p->failed = true;
    return !p->failed;
}

void v0_leave(struct v0_parser *p)
{
    p->depth--;
}

int v0_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'Z' ? c - 'A' + 36 : -1;
}

uint64_t v0_base62(struct v0_parser *p)
{
    uint64_t number = 0;

    if (v0_eat(p, '_'))
        return 0;
    while (!p->failed && !v0_eat(p, '_')) {
        int digit = v0_digit(v0_next(p));

        if (digit < 0 || __builtin_mul_overflow(number, 62, &number) ||
            __builtin_add_overflow(number, (uint64_t)digit, &number))
            p->failed = true;
    }
    if (__builtin_add_overflow(number, 1, &number))
        p->failed = true;
    return number;
}

uint64_t v0_optional_base62(struct v0_parser *p, char tag)
{
    uint64_t number;

    if (!v0_eat(p, tag))
        return 0;
    number = v0_base62(p);
    if (__builtin_add_overflow(number, 1, &number))
        p->failed = true;
    return number;
}

static size_t parse_decimal(struct v0_parser *p)
{
    size_t number = 0;
    char c = v0_next(p);

    if (c < '0' || c > '9')
        p->failed = true;
    if (c == '0' || p->failed)
        return 0;
    for (number = (size_t)(c - '0'); v0_peek(p) >= '0' && v0_peek(p) <= '9';) {
        number = number * 10 + (size_t)(v0_next(p) - '0');
        if (number > p->length)
            p->failed = true;
    }
    return number;
}

struct v0_identifier v0_undisambiguated(struct v0_parser *p)
{
    struct v0_identifier id = {.is_punycode = v0_eat(p, 'u')};

    id.length = parse_decimal(p);
    v0_eat(p, '_');
    if (p->failed || id.length > p->length - p->at) {
        p->failed = true;
        return (struct v0_identifier){.bytes = ""};
    }
    id.bytes = p->symbol + p->at;
    p->at += id.length;
    return id;
}

struct v0_identifier v0_identifier(struct v0_parser *p)
{
    uint64_t disambiguator = v0_optional_base62(p, 's');
    struct v0_identifier id = v0_undisambiguated(p);

    id.disambiguator = disambiguator;
    return id;
}

void v0_put_identifier(struct v0_parser *p, const struct v0_identifier *id)
{
    if (!id->is_punycode)
        v0_put_bytes(p, id->bytes, id->length);
    else if (!p->silent && !p->failed)
        p->failed = !rust_text_put_punycode(p->out, id->bytes, id->length) || p->out->full;
}

void v0_put_lifetime(struct v0_parser *p, uint64_t index)
{
    uint64_t level;

    if (index == 0) {
        v0_put(p, "'_");
        return;
    }
    if (index > p->n_bound) {
        p->failed = true;
        return;
    }
    level = p->n_bound - index;
    v0_put(p, "'");
    if (level < 26) {
        char letter = (char)('a' + level);

        v0_put_bytes(p, &letter, 1);
    } else {
        v0_put(p, "_");
        v0_put_number(p, level);
    }
}

uint64_t v0_binder(struct v0_parser *p)
{
    uint64_t n = v0_optional_base62(p, 'G');

    if (n > MAX_BOUND)
        p->failed = true;
    if (n == 0 || p->failed)
        return 0;
    if (p->silent) {
        p->n_bound += n;
        return n;
    }
    v0_put(p, "for<");
    for (uint64_t i = 0; i < n && !p->failed; i++) {
        v0_put(p, i ? ", " : "");
        p->n_bound++;
        v0_put_lifetime(p, 1);
    }
    v0_put(p, "> ");
    return n;
}
