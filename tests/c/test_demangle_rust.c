#include "unit.h"

#include "demangle_rust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most are the examples of https://doc.rust-lang.org/rustc/symbol-mangling/v0.html. */
static const struct {
    const char *symbol, *readable;
} known[] = {
    {"_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"},
    {"_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
     "<std::path::PathBuf>::new"},
    {"_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo", "<mycrate::Example>::foo"},
    {"_RNvXCs15kBYyAo9fc_7mycrateNtB2_7ExampleNtB2_5Trait3foo",
     "<mycrate::Example as mycrate::Trait>::foo"},
    {"_RNvYNtCs15kBYyAo9fc_7mycrate7ExampleNtB4_5Trait7exampleB4_",
     "<mycrate::Example as mycrate::Trait>::example"},
    {"_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}"},
    {"_RNCNvCsgStHSCytQ6I_7mycrate4mains_0B3_", "mycrate::main::{closure#1}"},
    {"_RNSNvC1a1bs_6vtable", "a::b::{shim:vtable#1}"},
    {"_RNQNvC1a1b0", "a::b::{Q#0}"},
    {"_RINvCsgStHSCytQ6I_7mycrate7examplelKj1_EB2_", "mycrate::example::<i32, 1>"},
    {"_RNvNtNtCsgOH4LzxkuMq_7mycrateu8gdel_5qa6escher4bach", "mycrate::g\303\266del::escher::bach"},
    {"_RNvNtC1au6n84amf1f", "a::\351\223\201\351\224\210::f"},
    {"_RNvNtC1au7___ylb7e1f", "a::\316\261_\317\211::f"},
    {"_RINvCs7qp2U7fqm6G_7mycrate7exampleFG0_RL1_hRL0_tEuEB2_",
     "mycrate::example::<for<'a, 'b> fn(&'a u8, &'b u16)>"},
    {"_RINvCs7qp2U7fqm6G_7mycrate7exampleKy12345678_EB2_", "mycrate::example::<305419896>"},
    {"_RNvNvMCsd9PVOYlP1UU_7mycrateINtB4_7ExamplepKpE3foo14EXAMPLE_STATIC",
     "<mycrate::Example<_, _>>::foo::EXAMPLE_STATIC"},
    {"_RINvCs7qp2U7fqm6G_7mycrate7exampleAtj8_EB2_", "mycrate::example::<[u16; 8]>"},
    {"_RINvCs7qp2U7fqm6G_7mycrate7exampleNtB2_7ExampleBw_EB2_",
     "mycrate::example::<mycrate::Example, mycrate::Example>"},
    {"_RINvMsY_NtCseXNvpPnDBDp_3std4pathNtB6_4Path3neweECs7qp2U7fqm6G_7mycrate",
     "<std::path::Path>::new::<str>"},
    {"_RNvNvNvCs7qp2U7fqm6G_7mycrate7EXAMPLE7___getit5___KEY$tlv$init",
     "mycrate::EXAMPLE::__getit::__KEY"},
    {"_RINvC1a1fC4f128E", "a::f::<f128>"},
    {"_RINvC1a1fuzvpE", "a::f::<(), !, ..., _>"},
    {"_RINvC1a1fTETlETlmEE", "a::f::<(), (i32,), (i32, u32)>"},
    {"_RINvC1a1fPaObQcRL_dSeE", "a::f::<*const i8, *mut bool, &mut char, &f64, [str]>"},
    {"_RINvC1a1fFUKCvEuFK6systemEjE",
     "a::f::<unsafe extern \"C\" fn(...), extern \"system\" fn() -> usize>"},
    {"_RINvC1a1fFK8C_unwindEuE", "a::f::<extern \"C-unwind\" fn()>"},
    {"_RINvC1a1fDG_INtC1a1TRL0_hEp4ItemtNtC1a4SendEL_E",
     "a::f::<dyn for<'a> a::T<&'a u8, Item = u16> + a::Send>"},
    {"_RINvC1a1fDNtC1a1Tp1CKj1_EL_E", "a::f::<dyn a::T<C = 1>>"},
    {"_RINvC1a1fFG_DNtC1a1TEL0_EuE", "a::f::<for<'a> fn(dyn a::T + 'a)>"},
    {"_RINvC1a1fL_E", "a::f::<'_>"},
    {"_RINvC1a1fKb0_Kb1_Kan80_E", "a::f::<false, true, -128>"},
    {"_RINvC1a1fKc41_Kca_Kc27_Kc7f_Kcf6_E", "a::f::<'A', '\\n', '\\'', '\\u{7f}', '\303\266'>"},
    {"_RINvC1a1fKo123456789abcdef01_Ko00000000000000001_E", "a::f::<0x123456789abcdef01, 1>"},
    {"_RNvC1a1f.llvm.1234", "a::f"},
    {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
    {"_ZN4core3fmt5write17h0123456789abcdefE.llvm.77", "core::fmt::write"},
    {"_ZN61_$LT$$RF$T$u20$as$u20$core..fmt..Debug$C$$LP$$RP$$BP$$SP$$GT$3fmt17h0123456789abcdefE",
     "<&T as core::fmt::Debug,()*@>::fmt"},
    {"_ZN1a18g$u7b$$uf6$$u7d$.b17h0123456789abcdefE", "a::g{\303\266}.b"},
};

static void known_symbols_are_readable(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        char *readable = rust_demangle(known[i].symbol);

        if (!readable)
            fail_msg("%s: not readable", known[i].symbol);
        assert_string_equal(readable, known[i].readable);
        free(readable);
    }
}

static void what_the_grammar_does_not_allow_is_no_symbol(void **state)
{
    static const char *const names[] = {
        "",
        "_",
        "_R",
        "_RN",
        "main",
        "_ZN3foo3barEv",
        "R_NvC1a1f",
        "_RC9a",          /* longer than the symbol */
        "_RNvB_1f",       /* a back reference to itself, */
        "_RNvBz_1f",      /* and ahead */
        "_RNvC1a1f_",     /* something left */
        "_RNvC1a1fNv",    /* a broken instantiating crate */
        "_R0NvC1a1f",     /* a later version of the scheme */
        "_RN1C1a1f",      /* no namespace */
        "_RINvC1a1fL0_E", /* a lifetime that nothing binds */
        "_RINvC1a1fgE",   /* an unknown type, */
        "_RINvC1a1fKe_E", /* and constant */
        "_RINvC1a1fKj_E", /* no digits */
        "_RINvC1a1fKb2_E",
        "_RINvC1a1fKcd800_E",
        "_RINvC1a1fKc110000_E",
        "_RINvC1a1fDNtC1a1TEE",    /* no lifetime */
        "_RNvNtC1au3a_A1f",        /* no Punycode, */
        "_RNvNtC1au8999999991f",   /* beyond Unicode */
        "_RNvCszzzzzzzzzzzz_1a1f", /* a number of more than 64 bits */
        "_ZN4core3fmt5write17h0123456789abcdeE",
        "_ZN4core17g0123456789abcdefE",
        "_ZN17h0123456789abcdefE", /* a hash alone */
        "_ZN4co$X17h0123456789abcdefE",
        "_ZN5co$X$17h0123456789abcdefE",
        "_ZN4core17h0123456789abcdefEv", /* C++ */
        "_ZN99core17h0123456789abcdefE",
        "_ZN99999999999999999999a17h0123456789abcdefE",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char *readable = rust_demangle(names[i]);

        if (readable)
            fail_msg("%s: %s", names[i], readable);
    }
}

/* As the grammar writes it: "_" is 0, "0_" is 1. */
static int base62(char *out, size_t number)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char *at = out;

    if (number-- > 0) {
        if (number >= 62)
            *at++ = digits[number / 62];
        *at++ = digits[number % 62];
    }
    return (int)(at - out) + sprintf(at, "_");
}

static void a_text_that_doubles_is_given_up(void **state)
{
    char symbol[1024] = "_RINvC1a1fTbbE", *at = symbol + strlen(symbol);
    size_t pair = strlen("INvC1a1f");

    (void)state;
    for (int i = 0; i < 60; i++) { /* each argument is the one before, twice */
        size_t next = (size_t)(at - symbol) - 2;

        *at++ = 'T';
        for (int half = 0; half < 2; half++) {
            *at++ = 'B';
            at += base62(at, pair);
        }
        *at++ = 'E';
        pair = next;
    }
    strcpy(at, "E");
    assert_null(rust_demangle(symbol));
}

static void nesting_is_bounded(void **state)
{
    enum { N = 1 << 12 };
    char symbol[N + 32] = "_RINvC1a1f";

    (void)state;
    for (const char *nests = "STPRFIMXYN"; *nests; nests++) {
        memset(symbol + 10, *nests, N);
        strcpy(symbol + 10 + N, "hE");
        assert_null(rust_demangle(symbol));
    }
}

static void length_is_bounded(void **state)
{
    char symbol[RUST_SYMBOL_BYTES + 32];

    (void)state;
    for (int excess = 0; excess < 2; excess++) {
        int n = RUST_SYMBOL_BYTES - 12 + excess, head = sprintf(symbol, "_RNvC1a%d", n);
        char *readable;

        memset(symbol + head, 'x', (size_t)n);
        symbol[head + n] = '\0';
        assert_int_equal(strlen(symbol), RUST_SYMBOL_BYTES + excess);
        readable = rust_demangle(symbol);
        if (excess)
            assert_null(readable);
        else
            assert_int_equal(strlen(readable), 3 + n);
        free(readable);
    }
}

static void binders_are_bounded(void **state)
{
    char symbol[4096] = "_RNvMINtC1a1T", *at = symbol + strlen(symbol);

    (void)state;
    assert_null(rust_demangle("_RINvC1a1fFGzzzzzzzzz_EuE"));
    assert_null(rust_demangle("_RNvMINvC1a1fFGzzzzzzzz_EuEu1f"));
    for (int i = 0; i < 500; i++) /* where nothing is written */
        at += sprintf(at, "FGgBA_Eu");
    sprintf(at, "Eh1f");
    assert_null(rust_demangle("_RINvC1a1fFGgBA_EuE"));
    at = rust_demangle(symbol);
    assert_string_equal(at, "<u8>::f");
    free(at);
}

static void no_symbol_does_harm(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        size_t length = strlen(known[i].symbol);

        for (size_t cut = 0; cut < length; cut++) {
            char *part = strndup(known[i].symbol, cut); /* its end is the allocation's */

            free(rust_demangle(part));
            free(part);
        }
        for (int n = 0; n < 2000; n++) {
            char *other = strdup(known[i].symbol);

            for (uint64_t edits = 1 + unit_random(&random) % 4; edits; edits--)
                other[2 + unit_random(&random) % (length - 2)] =
                    known[i].symbol[unit_random(&random) % length];
            free(rust_demangle(other));
            free(other);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_symbols_are_readable),
        cmocka_unit_test(what_the_grammar_does_not_allow_is_no_symbol),
        cmocka_unit_test(a_text_that_doubles_is_given_up),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(length_is_bounded),
        cmocka_unit_test(binders_are_bounded),
        cmocka_unit_test(no_symbol_does_harm),
    };
    return cmocka_run_group_tests_name("demangle_rust", tests, NULL, NULL);
}
