/* demangle_rust.c - readable forms of Rust's symbols, of both schemes.
 *
 *   v0      _RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo     <mycrate::Example>::foo
 *   legacy  _ZN4core3fmt5write17h0123456789abcdefE             core::fmt::write
 *
 * Hashes are left out, as in rustc's own backtraces: a crate's, a legacy symbol's, the crate that
 * instantiates; and so is what LLVM appended (".llvm.123", ".cold").
 *
 * Why no library does it: libiberty's rust_demangle (binutils 2.40; a static archive, LGPL) does not return from
 * `_RNvMINvC1a1fFGzzzzzzzz_EuEu1f`, 30 bytes: it counts the lifetimes of a binder in a part that is not shown, and its
 * callback, by which one could leave it, is not called there.  It also reads 6 of the 55 symbols of the tests less
 * well: letters beyond ASCII in the legacy scheme and in constants, constants as arguments of traits, constants of
 * more than 64 bits, what LLVM appended.  The crate rustc-demangle (with a C interface) would bring a Rust compiler
 * into the build.
 *
 * A symbol is a file's, not trusted: what the grammar does not allow, a symbol longer than
 * RUST_SYMBOL_BYTES, a text longer than RUST_NAME_BYTES and nesting deeper than the parser goes
 * have no readable form.  Time and stack are bounded, and nothing is read beyond the symbol's NUL.
 * Any thread, no state.
 *
 * Rust's symbols: the legacy scheme, and which of the two it is.
 */
#include "demangle_rust.h"

#include <stdlib.h>
#include <string.h>

enum { HASH_BYTES = 17 }; /* "h" and 16 hexadecimal digits */

static bool is_hash(const char *bytes, size_t length)
{
    if (length != HASH_BYTES || bytes[0] != 'h')
        return false;
    for (size_t i = 1; i < length; i++)
        if (rust_hex_digit(bytes[i]) < 0)
            return false;
    return true;
}

/* `code` is what stands between two dollar signs. */
static bool put_escape(struct rust_text *t, const char *code, size_t length)
{
    static const struct {
        const char *code, *text;
    } escapes[] = {{"SP", "@"}, {"BP", "*"}, {"RF", "&"}, {"LT", "<"},
                   {"GT", ">"}, {"LP", "("}, {"RP", ")"}, {"C", ","}};
    uint32_t point = 0;

    for (size_t i = 0; i < sizeof(escapes) / sizeof(*escapes); i++) {
        if (strlen(escapes[i].code) == length && memcmp(escapes[i].code, code, length) == 0) {
            rust_text_put(t, escapes[i].text, 1);
            return true;
        }
    }
    if (length < 2 || length > 7 || code[0] != 'u')
        return false;
    for (size_t i = 1; i < length; i++) {
        int digit = rust_hex_digit(code[i]);

        if (digit < 0)
            return false;
        point = point << 4 | (uint32_t)digit;
    }
    return point >= 0x20 && rust_text_put_char(t, point);
}

static bool put_legacy_segment(struct rust_text *t, const char *at, size_t length)
{
    const char *end = at + length;

    if (length > 1 && at[0] == '_' && at[1] == '$')
        at++; /* put before an escape, for identifiers begin with a letter */
    while (at < end) {
        if (*at == '$') {
            const char *close = memchr(at + 1, '$', (size_t)(end - at - 1));

            if (!close || !put_escape(t, at + 1, (size_t)(close - at - 1)))
                return false;
            at = close + 1;
        } else if (end - at >= 2 && at[0] == '.' && at[1] == '.') {
            rust_text_put(t, "::", 2);
            at += 2;
        } else {
            rust_text_put(t, at++, 1);
        }
    }
    return true;
}

/* A C++ name but for its last part, by which it is known. */
bool rust_demangle_legacy(const char *name, struct rust_text *out)
{
    const char *at = name + 3;

    if (strncmp(name, "_ZN", 3) != 0)
        return false;
    for (bool first = true;; first = false) {
        size_t length = 0;

        if (*at < '1' || *at > '9')
            return false;
        for (; *at >= '0' && *at <= '9'; at++) {
            length = length * 10 + (size_t)(*at - '0');
            if (length > RUST_NAME_BYTES)
                return false;
        }
        if (strnlen(at, length) < length)
            return false;
        if (at[length] == 'E')
            return !first && is_hash(at, length) &&
                   (at[length + 1] == '\0' || at[length + 1] == '.');
        if (!first)
            rust_text_put(out, "::", 2);
        if (!put_legacy_segment(out, at, length))
            return false;
        at += length;
    }
}

char *rust_demangle(const char *name)
{
    struct rust_text text = {.size = RUST_NAME_BYTES};
    char *readable = NULL;

    if (strncmp(name, "_R", 2) != 0 && strncmp(name, "_ZN", 3) != 0)
        return NULL;
    if (strnlen(name, RUST_SYMBOL_BYTES + 1) > RUST_SYMBOL_BYTES)
        return NULL;
    text.bytes = malloc(text.size);
    if (text.bytes &&
        (name[1] == 'R' ? rust_demangle_v0(name, &text) : rust_demangle_legacy(name, &text)) &&
        !text.full && text.length) /* 0: of a crate without a name, which no compiler writes */
        readable = strndup(text.bytes, text.length);
    free(text.bytes);
    return readable;
}
