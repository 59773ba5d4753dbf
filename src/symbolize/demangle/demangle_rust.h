/* demangle_rust.h - readable forms of Rust's symbols, of both schemes.
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
 */
#ifndef PYH_DEMANGLE_RUST_H
#define PYH_DEMANGLE_RUST_H

#include "demangle_rust_text.h"

enum { RUST_NAME_BYTES = 1 << 16, RUST_SYMBOL_BYTES = 1 << 14 };

/* The readable form, for the caller to free(); NULL for what is no Rust symbol, or out of memory. */
char *rust_demangle(const char *name);

/* The two schemes, of which rust_demangle() takes the one that fits: false if `name` is not of it. */
bool rust_demangle_v0(const char *name, struct rust_text *out);
bool rust_demangle_legacy(const char *name, struct rust_text *out);

#endif
