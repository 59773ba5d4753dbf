/* demangle_rust_v0.c - Rust's v0 symbols, by recursive descent.
 *
 * Grammar and recommended forms: https://doc.rust-lang.org/rustc/symbol-mangling/v0.html; a function
 * here is a rule there.
 */
#include "demangle_rust.h"

#include <stdio.h>
#include <string.h>

static void parse_path(struct v0_parser *p, bool in_value);
static void parse_type(struct v0_parser *p);
static void parse_const(struct v0_parser *p);

/* Runs `parse` where a back reference ("B" is eaten) points to. */
static void follow(struct v0_parser *p, void (*parse)(struct v0_parser *, void *), void *argument)
{
    size_t reference = p->at - 1, after;
    uint64_t target = v0_base62(p);

    if (target >= reference)
        p->failed = true;
    if (p->failed || p->silent || !v0_enter(p))
        return;
    after = p->at;
    p->at = (size_t)target;
    parse(p, argument);
    p->at = after;
    v0_leave(p);
}

static void follow_path(struct v0_parser *p, void *in_value)
{
    parse_path(p, *(bool *)in_value);
}

static void follow_type(struct v0_parser *p, void *unused)
{
    (void)unused;
    parse_type(p);
}

static void follow_const(struct v0_parser *p, void *unused)
{
    (void)unused;
    parse_const(p);
}

static void parse_generic_arg(struct v0_parser *p)
{
    if (v0_eat(p, 'L'))
        v0_put_lifetime(p, v0_base62(p));
    else if (v0_eat(p, 'K'))
        parse_const(p);
    else
        parse_type(p);
}

/* Runs `parse` up to an "E"; returns how many there were. */
static unsigned parse_list(struct v0_parser *p, void (*parse)(struct v0_parser *),
                           const char *separator)
{
    unsigned n = 0;

    for (; !p->failed && !v0_eat(p, 'E'); n++) {
        if (n)
            v0_put(p, separator);
        parse(p);
    }
    return n;
}

/* Of an impl, where it stands in the source: not shown. */
static void skip_impl_path(struct v0_parser *p)
{
    bool was_silent = p->silent;

    p->silent = true;
    v0_optional_base62(p, 's');
    parse_path(p, false);
    p->silent = was_silent;
}

static void parse_nested_path(struct v0_parser *p, bool in_value)
{
    char namespace = v0_next(p);
    struct v0_identifier id;

    if (v0_digit(namespace) < 10)
        p->failed = true;
    parse_path(p, in_value);
    id = v0_identifier(p);
    if (namespace >= 'A' && namespace <= 'Z') {
        v0_put(p, "::{");
        v0_put(p, namespace == 'C' ? "closure" : namespace == 'S' ? "shim" : "");
        if (namespace != 'C' && namespace != 'S')
            v0_put_bytes(p, &namespace, 1);
        v0_put(p, id.length ? ":" : "");
        v0_put_identifier(p, &id);
        v0_put(p, "#");
        v0_put_number(p, id.disambiguator);
        v0_put(p, "}");
    } else if (id.length) {
        v0_put(p, "::");
        v0_put_identifier(p, &id);
    }
}

/* `in_value`: a function or static, whose generic arguments follow "::". */
static void parse_path(struct v0_parser *p, bool in_value)
{
    struct v0_identifier id;
    char tag;

    if (!v0_enter(p))
        return;
    switch (tag = v0_next(p)) {
    case 'C':
        id = v0_identifier(p);
        v0_put_identifier(p, &id);
        break;
    case 'M':
    case 'X':
    case 'Y':
        if (tag != 'Y')
            skip_impl_path(p);
        v0_put(p, "<");
        parse_type(p);
        if (tag != 'M') {
            v0_put(p, " as ");
            parse_path(p, false);
        }
        v0_put(p, ">");
        break;
    case 'N':
        parse_nested_path(p, in_value);
        break;
    case 'I':
        parse_path(p, in_value);
        v0_put(p, in_value ? "::<" : "<");
        parse_list(p, parse_generic_arg, ", ");
        v0_put(p, ">");
        break;
    case 'B':
        follow(p, follow_path, &in_value);
        break;
    default:
        p->failed = true;
    }
    v0_leave(p);
}

/* A trait's path; *open: its generic arguments have begun, and are still to be closed. */
static void parse_open_path(struct v0_parser *p, void *open)
{
    if (v0_eat(p, 'B')) {
        follow(p, parse_open_path, open);
    } else if (v0_eat(p, 'I')) {
        parse_path(p, false);
        v0_put(p, "<");
        parse_list(p, parse_generic_arg, ", ");
        *(bool *)open = true;
    } else {
        parse_path(p, false);
    }
}

static void parse_dyn_trait(struct v0_parser *p)
{
    bool open = false;

    parse_open_path(p, &open);
    while (v0_eat(p, 'p')) {
        struct v0_identifier id = v0_undisambiguated(p);

        v0_put(p, open ? ", " : "<");
        open = true;
        v0_put_identifier(p, &id);
        v0_put(p, " = ");
        if (v0_eat(p, 'K'))
            parse_const(p);
        else
            parse_type(p);
    }
    v0_put(p, open ? ">" : "");
}

static void parse_dyn(struct v0_parser *p)
{
    uint64_t n_bound, lifetime;

    v0_put(p, "dyn ");
    n_bound = v0_binder(p);
    parse_list(p, parse_dyn_trait, " + ");
    p->n_bound -= n_bound;
    if (!v0_eat(p, 'L'))
        p->failed = true;
    lifetime = v0_base62(p);
    if (lifetime) {
        v0_put(p, " + ");
        v0_put_lifetime(p, lifetime);
    }
}

static void put_abi(struct v0_parser *p)
{
    struct v0_identifier id = {.bytes = "C", .length = 1};

    if (!v0_eat(p, 'C'))
        id = v0_undisambiguated(p);
    v0_put(p, "extern \"");
    for (size_t i = 0; i < id.length; i++)
        v0_put_bytes(p, id.bytes[i] == '_' ? "-" : &id.bytes[i], 1);
    v0_put(p, "\" ");
}

static void parse_fn(struct v0_parser *p)
{
    uint64_t n_bound = v0_binder(p);

    if (v0_eat(p, 'U'))
        v0_put(p, "unsafe ");
    if (v0_eat(p, 'K'))
        put_abi(p);
    v0_put(p, "fn(");
    parse_list(p, parse_type, ", ");
    v0_put(p, ")");
    if (!v0_eat(p, 'u')) {
        v0_put(p, " -> ");
        parse_type(p);
    }
    p->n_bound -= n_bound;
}

static void parse_reference(struct v0_parser *p, const char *after)
{
    uint64_t lifetime = v0_eat(p, 'L') ? v0_base62(p) : 0;

    v0_put(p, "&");
    if (lifetime) {
        v0_put_lifetime(p, lifetime);
        v0_put(p, " ");
    }
    v0_put(p, after);
    parse_type(p);
}

static const char *basic_type(char tag)
{
    static const char *const names[26] = {
        ['a' - 'a'] = "i8",    ['b' - 'a'] = "bool", ['c' - 'a'] = "char", ['d' - 'a'] = "f64",
        ['e' - 'a'] = "str",   ['f' - 'a'] = "f32",  ['h' - 'a'] = "u8",   ['i' - 'a'] = "isize",
        ['j' - 'a'] = "usize", ['l' - 'a'] = "i32",  ['m' - 'a'] = "u32",  ['n' - 'a'] = "i128",
        ['o' - 'a'] = "u128",  ['p' - 'a'] = "_",    ['s' - 'a'] = "i16",  ['t' - 'a'] = "u16",
        ['u' - 'a'] = "()",    ['v' - 'a'] = "...",  ['x' - 'a'] = "i64",  ['y' - 'a'] = "u64",
        ['z' - 'a'] = "!",
    };

    return tag >= 'a' && tag <= 'z' ? names[tag - 'a'] : NULL;
}

static void parse_compound_type(struct v0_parser *p, char tag)
{
    switch (tag) {
    case 'A':
    case 'S':
        v0_put(p, "[");
        parse_type(p);
        if (tag == 'A') {
            v0_put(p, "; ");
            parse_const(p);
        }
        v0_put(p, "]");
        break;
    case 'T':
        v0_put(p, "(");
        v0_put(p, parse_list(p, parse_type, ", ") == 1 ? ",)" : ")");
        break;
    case 'R':
        parse_reference(p, "");
        break;
    case 'Q':
        parse_reference(p, "mut ");
        break;
    case 'P':
    case 'O':
        v0_put(p, tag == 'P' ? "*const " : "*mut ");
        parse_type(p);
        break;
    case 'F':
        parse_fn(p);
        break;
    case 'D':
        parse_dyn(p);
        break;
    case 'B':
        follow(p, follow_type, NULL);
        break;
    default: /* a named type */
        p->at--;
        parse_path(p, false);
    }
}

static void parse_type(struct v0_parser *p)
{
    const char *basic;
    char tag;

    if (!v0_enter(p))
        return;
    tag = v0_next(p);
    basic = basic_type(tag);
    if (basic)
        v0_put(p, basic);
    else if (!p->failed)
        parse_compound_type(p, tag);
    v0_leave(p);
}

/* In Rust's notation of a character between quotes. */
static void put_char_literal(struct v0_parser *p, uint64_t value)
{
    char c = (char)value;

    v0_put(p, "'");
    if (value == '\n' || value == '\r' || value == '\t')
        v0_put(p, value == '\n' ? "\\n" : value == '\r' ? "\\r" : "\\t");
    else if (value == '\'' || value == '\\') {
        v0_put(p, "\\");
        v0_put_bytes(p, &c, 1);
    } else if (value < 0x20 || value == 0x7F) {
        char escape[12];

        v0_put_bytes(p, escape,
                     (size_t)snprintf(escape, sizeof(escape), "\\u{%x}", (unsigned)value));
    } else if (value > 0x10FFFF) {
        p->failed = true;
    } else if (!p->silent && !p->failed) {
        p->failed = !rust_text_put_char(p->out, (uint32_t)value) || p->out->full;
    }
    v0_put(p, "'");
}

static void parse_const_data(struct v0_parser *p, char type)
{
    const char *digits;
    uint64_t value = 0;
    size_t start, n;

    if (v0_eat(p, 'n'))
        v0_put(p, "-");
    for (start = p->at; rust_hex_digit(v0_peek(p)) >= 0; p->at++)
        value = value << 4 | (uint64_t)rust_hex_digit(v0_peek(p));
    n = p->at - start;
    if (n == 0 || !v0_eat(p, '_')) {
        p->failed = true;
        return;
    }
    for (digits = p->symbol + start; n > 1 && *digits == '0'; n--)
        digits++;
    if (n > 16 && (type == 'b' || type == 'c')) {
        p->failed = true;
    } else if (n > 16) { /* 128 bits */
        v0_put(p, "0x");
        v0_put_bytes(p, digits, n);
    } else if (type == 'b' && value > 1) {
        p->failed = true;
    } else if (type == 'b') {
        v0_put(p, value ? "true" : "false");
    } else if (type == 'c') {
        put_char_literal(p, value);
    } else {
        v0_put_number(p, value);
    }
}

static void parse_const(struct v0_parser *p)
{
    char type;

    if (!v0_enter(p))
        return;
    type = v0_next(p);
    if (type == 'p')
        v0_put(p, "_");
    else if (type == 'B')
        follow(p, follow_const, NULL);
    else if (type && strchr("abchijlmnostxy", type))
        parse_const_data(p, type);
    else
        p->failed = true;
    v0_leave(p);
}

bool rust_demangle_v0(const char *name, struct rust_text *out)
{
    struct v0_parser p = {.symbol = name + 2, .out = out};

    if (strncmp(name, "_R", 2) != 0)
        return false;
    p.length = strcspn(p.symbol, ".$"); /* what follows is the linker's */
    parse_path(&p, true);
    if (p.at < p.length && !p.failed) { /* the crate that instantiates it */
        p.silent = true;
        parse_path(&p, false);
    }
    return !p.failed && p.at == p.length;
}
