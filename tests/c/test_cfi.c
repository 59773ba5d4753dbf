/* Functions in assembly, whose call frame instructions stand beside the rules that must come out.
 * They are looked up, never executed. */
#include "unit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cfi.h"

#define FUNCTION(name)                                                                             \
    ".type " #name ", @function\n.hidden " #name "\n.globl " #name "\n" #name ":\n"
#define AT(label) ".hidden " #label "\n.globl " #label "\n" #label ": nop\n"

/* clang-format off */
__asm__(
    ".text\n.balign 16\n"
    FUNCTION(framed) ".cfi_startproc\n"
    AT(framed_entry)
    ".cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
    AT(framed_pushed)
    ".cfi_def_cfa_register %rbp\n"
    AT(framed_body)
    ".cfi_offset %rbx, -24\n"
    AT(framed_rbx)
    ".cfi_remember_state\n.cfi_def_cfa %rsp, 8\n.cfi_restore %rbp\n.cfi_same_value %rbx\n"
    AT(framed_popped)
    ".cfi_restore_state\n"
    AT(framed_again)
    ".cfi_endproc\n.size framed, . - framed\n"
    AT(without_fde)
    ".balign 16\n"

    /* GCC's realigned stack: lea 8(%rsp), %r10; and $-64, %rsp; push -8(%r10); push %rbp; ... */
    FUNCTION(realigned) ".cfi_startproc\n"
    AT(realigned_entry)
    ".cfi_def_cfa %r10, 0\n"
    AT(realigned_r10)
    ".cfi_escape 0x10, 6, 2, 0x76, 0\n"                 /* rbp at rbp + 0 */
    AT(realigned_rbp)
    ".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n"           /* CFA *(rbp - 8) */
    ".cfi_escape 0x10, 3, 2, 0x76, 0x70\n"              /* rbx at rbp - 16 */
    AT(realigned_body)
    ".cfi_endproc\n.size realigned, . - realigned\n"

    FUNCTION(by_rbx) ".cfi_startproc\n.cfi_def_cfa %rbx, 16\n.cfi_offset %rbx, -16\n"
    AT(by_rbx_body)
    ".cfi_endproc\n.size by_rbx, . - by_rbx\n"

    FUNCTION(plt) ".cfi_startproc\n"
    ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n"
    AT(plt_body)
    ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x39, 0x2a, 0x33, 0x24, 0x22\n"
    AT(plt_nine)
    ".cfi_endproc\n.size plt, . - plt\n"

    FUNCTION(far) ".cfi_startproc\n"
    ".skip 62, 0x90\n"
    AT(far_0) ".cfi_def_cfa_offset 16\n"      /* DW_CFA_advance_loc (63) */
    AT(far_1) ".skip 200, 0x90\n.cfi_def_cfa_offset 24\n"    /* advance_loc1 */
    AT(far_2) ".skip 2000, 0x90\n.cfi_def_cfa_offset 32\n"   /* advance_loc2 */
    AT(far_3) ".skip 70000, 0x90\n.cfi_def_cfa_offset 70000\n" /* advance_loc4 */
    AT(far_4)
    ".cfi_endproc\n.size far, . - far\n"

    FUNCTION(rare) ".cfi_startproc\n"
    ".cfi_escape 0x12, 7, 0x7e\n"             /* def_cfa_sf: rsp + -2 * -8 */
    ".cfi_escape 0x05, 6, 3\n"                /* offset_extended: rbp at CFA - 24 */
    ".cfi_escape 0x11, 3, 4\n"                /* offset_extended_sf: rbx at CFA - 32 */
    ".cfi_escape 0x2e, 16\n"                  /* GNU_args_size */
    AT(rare_sf)
    ".cfi_escape 0x13, 0x7c\n"                /* def_cfa_offset_sf: -4 * -8 */
    ".cfi_escape 0x06, 6\n"                   /* restore_extended rbp */
    ".cfi_escape 0x0a\n.cfi_escape 0x0c, 6, 99\n.cfi_escape 0x0b\n"
    AT(rare_restored)
    ".cfi_escape 0x16, 12, 2, 0x76, 0\n"      /* val_expression, of a register of no interest */
    ".cfi_escape 0x09, 13, 14\n"              /* register */
    ".cfi_escape 0x14, 15, 2\n.cfi_escape 0x15, 15, 2\n"
    ".cfi_escape 0x07, 6\n"                   /* undefined rbp */
    AT(rare_others)
    ".cfi_endproc\n.size rare, . - rare\n"

    /* An augmentation with everything in it, as C++ has it: "zPLR" */
    FUNCTION(augmented) ".cfi_startproc\n.cfi_personality 0x1b, framed\n.cfi_lsda 0x1b, framed\n"
    ".cfi_def_cfa_offset 48\n"
    AT(augmented_body)
    ".cfi_endproc\n.size augmented, . - augmented\n"

    /* A CIE of its own, whose initial rules save rbx: no directive makes that. */
    FUNCTION(initial)
    AT(initial_entry) AT(initial_changed) AT(initial_restored)
    ".size initial, . - initial\n"
    ".pushsection .eh_frame, \"a\", @progbits\n"
    "0: .long 2f - 1f\n1: .long 0\n.byte 1\n.string \"zR\"\n.uleb128 1\n.sleb128 -8\n.byte 16\n"
    ".uleb128 1\n.byte 0x1b\n"
    ".byte 0x0c, 7, 24, 0x90, 1, 0x83, 2\n"   /* CFA rsp + 24, rip at CFA - 8, rbx at CFA - 16 */
    ".balign 8, 0\n2:\n"
    ".long 4f - 3f\n3: .long 3b - 0b\n.long initial - .\n.long 3\n.uleb128 0\n"
    ".byte 0x41, 0x08, 3, 0x41, 0xc3\n"       /* advance 1, same_value rbx, advance 1, restore rbx */
    ".balign 8, 0\n4:\n.popsection\n"

    FUNCTION(signal_return) ".cfi_startproc\n.cfi_signal_frame\n"
    AT(signal_return_body)
    ".cfi_endproc\n.size signal_return, . - signal_return\n"

    FUNCTION(root) ".cfi_startproc\n.cfi_undefined %rip\n"
    AT(root_body)
    ".cfi_endproc\n.size root, . - root\n"

    /* What is not understood must be "unknown", not wrong. */
    FUNCTION(odd_register) ".cfi_startproc\n.cfi_def_cfa %r12, 8\n"
    AT(odd_register_body)
    ".cfi_def_cfa %rsp, 8\n"
    AT(odd_register_over)
    ".cfi_endproc\n.size odd_register, . - odd_register\n"
    FUNCTION(odd_expression) ".cfi_startproc\n.cfi_escape 0x0f, 3, 0x77, 8, 0x06\n" /* *(rsp+8) */
    AT(odd_expression_body)
    ".cfi_escape 0x0f, 4, 0x76, 0x78, 0x06, 0x06\n"                               /* one deref more */
    AT(odd_expression_longer)
    ".cfi_endproc\n.size odd_expression, . - odd_expression\n"
    FUNCTION(odd_return) ".cfi_startproc\n.cfi_offset %rip, -24\n"
    AT(odd_return_body)
    ".cfi_endproc\n.size odd_return, . - odd_return\n"
    FUNCTION(odd_offset) ".cfi_startproc\n.cfi_offset %rbp, -40000\n"
    AT(odd_offset_body)
    ".cfi_endproc\n.size odd_offset, . - odd_offset\n"
    FUNCTION(odd_opcode) ".cfi_startproc\n.cfi_escape 0x2d\n"
    AT(odd_opcode_body)
    ".cfi_endproc\n.size odd_opcode, . - odd_opcode\n"
    FUNCTION(odd_state) ".cfi_startproc\n.cfi_escape 0x0b\n" /* restore without remember */
    AT(odd_state_body)
    ".cfi_endproc\n.size odd_state, . - odd_state\n"
    FUNCTION(odd_depth) ".cfi_startproc\n.cfi_escape 0x0a,0x0a,0x0a,0x0a,0x0a,0x0a,0x0a,0x0a\n"
    AT(odd_depth_eight)
    ".cfi_escape 0x0a\n"
    AT(odd_depth_nine)
    ".cfi_endproc\n.size odd_depth, . - odd_depth\n"
);
/* clang-format on */

static struct cfi_rule rule_at(const char *label)
{
    struct cfi_rule rule;
    cfi_find((uint64_t)label, &rule);
    return rule;
}

/* `label` is a symbol of the assembly above. */
#define CFA(label, kind, offset)                                                                   \
    do {                                                                                           \
        extern const char label[];                                                                 \
        struct cfi_rule rule = rule_at(label);                                                     \
        assert_int_equal(rule.cfa_kind, kind);                                                     \
        assert_int_equal(rule.cfa_offset, offset);                                                 \
    } while (0)

#define KIND(label, kind)                                                                          \
    do {                                                                                           \
        extern const char label[];                                                                 \
        assert_int_equal(rule_at(label).cfa_kind, kind);                                           \
    } while (0)

#define SAVED(label, reg, kind, offset)                                                            \
    do {                                                                                           \
        extern const char label[];                                                                 \
        struct cfi_rule rule = rule_at(label);                                                     \
        assert_int_equal(rule.reg##_kind, kind);                                                   \
        if (kind != SAVED_SAME)                                                                    \
            assert_int_equal(rule.reg##_offset, offset);                                           \
    } while (0)

static void a_frame_pointer_function(void **state)
{
    (void)state;
    CFA(framed_entry, CFA_RSP, 8);
    CFA(framed_pushed, CFA_RSP, 16);
    CFA(framed_body, CFA_RBP, 16);
    SAVED(framed_entry, bp, SAVED_SAME, 0);
    SAVED(framed_pushed, bp, SAVED_AT_CFA, -16);
    SAVED(framed_body, bx, SAVED_SAME, 0);
    SAVED(framed_rbx, bx, SAVED_AT_CFA, -24);
}

static void states_are_remembered_and_restored(void **state)
{
    (void)state;
    CFA(framed_popped, CFA_RSP, 8);
    SAVED(framed_popped, bp, SAVED_SAME, 0);
    SAVED(framed_popped, bx, SAVED_SAME, 0);
    CFA(framed_again, CFA_RBP, 16);
    SAVED(framed_again, bp, SAVED_AT_CFA, -16);
    SAVED(framed_again, bx, SAVED_AT_CFA, -24);
}

static void a_realigned_stack(void **state)
{
    (void)state;
    CFA(realigned_entry, CFA_RSP, 8);
    CFA(realigned_r10, CFA_R10, 0);
    CFA(realigned_body, CFA_RBP_DEREF, -8);
    SAVED(realigned_r10, bp, SAVED_SAME, 0);
    SAVED(realigned_rbp, bp, SAVED_AT_RBP, 0);
    SAVED(realigned_body, bx, SAVED_AT_RBP, -16);
}

static void a_cfa_by_rbx(void **state)
{
    (void)state;
    CFA(by_rbx_body, CFA_RBX, 16);
    SAVED(by_rbx_body, bx, SAVED_AT_CFA, -16);
}

static void a_procedure_linkage_table(void **state)
{
    (void)state;
    CFA(plt_body, CFA_PLT, 11);
    CFA(plt_nine, CFA_PLT, 9);
}

static void locations_advance_in_all_widths(void **state)
{
    (void)state;
    CFA(far, CFA_RSP, 8);
    CFA(far_0, CFA_RSP, 8);
    CFA(far_1, CFA_RSP, 16);
    CFA(far_2, CFA_RSP, 24);
    CFA(far_3, CFA_RSP, 32);
    CFA(far_4, CFA_RSP, 70000);
}

static void rare_instructions(void **state)
{
    (void)state;
    CFA(rare_sf, CFA_RSP, 16);
    SAVED(rare_sf, bp, SAVED_AT_CFA, -24);
    SAVED(rare_sf, bx, SAVED_AT_CFA, -32);
    CFA(rare_restored, CFA_RSP, 32);
    SAVED(rare_restored, bp, SAVED_SAME, 0);
    SAVED(rare_restored, bx, SAVED_AT_CFA, -32);
    CFA(rare_others, CFA_RSP, 32);
    SAVED(rare_others, bx, SAVED_AT_CFA, -32);
}

static void initial_rules_are_restored(void **state)
{
    (void)state;
    CFA(initial_entry, CFA_RSP, 24);
    SAVED(initial_entry, bx, SAVED_AT_CFA, -16);
    SAVED(initial_changed, bx, SAVED_SAME, 0);
    SAVED(initial_restored, bx, SAVED_AT_CFA, -16);
    CFA(initial_restored, CFA_RSP, 24);
}

static void augmentations_are_skipped(void **state)
{
    (void)state;
    CFA(augmented_body, CFA_RSP, 48);
}

static void signal_frames_and_roots_are_known(void **state)
{
    (void)state;
    KIND(signal_return_body, CFA_SIGNAL);
    KIND(root_body, CFA_END);
}

static void what_is_not_understood_is_unknown(void **state)
{
    (void)state;
    KIND(odd_register_body, CFA_NONE);
    CFA(odd_register_over, CFA_RSP, 8);
    KIND(odd_expression_body, CFA_NONE);
    KIND(odd_expression_longer, CFA_NONE);
    KIND(odd_return_body, CFA_NONE);
    KIND(odd_offset_body, CFA_NONE);
    KIND(odd_opcode_body, CFA_NONE);
    KIND(odd_state_body, CFA_NONE);
    CFA(odd_depth_eight, CFA_RSP, 8);
    KIND(odd_depth_nine, CFA_NONE);
}

static void a_function_is_its_fde(void **state)
{
    (void)state;
    extern const char framed[], framed_body[], realigned[], without_fde[];
    uint64_t start, end;
    assert_true(cfi_function((uint64_t)framed, &start, &end));
    assert_int_equal(start, (uint64_t)framed);
    assert_int_equal(end, (uint64_t)without_fde);
    assert_true(cfi_function((uint64_t)framed_body, &start, &end));
    assert_int_equal(start, (uint64_t)framed);
    assert_true(cfi_function(end - 1, &start, &end));
    assert_int_equal(start, (uint64_t)framed);
    assert_true(cfi_function((uint64_t)realigned, &start, &end));
    assert_int_equal(start, (uint64_t)realigned);
    KIND(without_fde, CFA_NONE);
    assert_false(cfi_function((uint64_t)without_fde, &start, &end));
}

static void assert_rules_equal(const struct cfi_rule *a, const struct cfi_rule *b)
{
    assert_int_equal(a->cfa_kind, b->cfa_kind);
    assert_int_equal(a->cfa_offset, b->cfa_offset);
    assert_int_equal(a->bp_kind, b->bp_kind);
    assert_int_equal(a->bp_offset, b->bp_offset);
    assert_int_equal(a->bx_kind, b->bx_kind);
    assert_int_equal(a->bx_offset, b->bx_offset);
}

/* Returns how many rows the function around `inside` has. */
static int assert_rows_tile(uint64_t inside)
{
    uint64_t start, end;
    struct cfi_row row = {0}, again;
    struct cfi_rule rule;
    int n = 0;
    assert_true(cfi_function(inside, &start, &end));
    for (uint64_t at = start; at < end; at++) {
        cfi_find(at, &rule);
        if (rule.cfa_kind == CFA_SIGNAL || (n && at < row.end)) {
            if (n)
                assert_rules_equal(&rule, &row.rule);
            continue;
        }
        if (n)
            assert_int_equal(at, row.end);
        n++;
        cfi_find_row(at, &row);
        assert_rules_equal(&rule, &row.rule);
        assert_int_equal(row.start, at);
        assert_true(row.end > at && row.end <= end);
        cfi_find_row(row.end - 1, &again);
        assert_int_equal(again.start, row.start);
        assert_int_equal(again.end, row.end);
    }
    return n;
}

/* The rows of a function lie side by side, each with the rule of all its addresses. */
static void rows_hold_for_all_their_addresses(void **state)
{
    (void)state;
    extern const char framed_body[], realigned_body[], far_4[], rare_sf[], odd_depth_nine[];
    assert_int_equal(assert_rows_tile((uint64_t)framed_body), 6);
    assert_int_equal(assert_rows_tile((uint64_t)far_4), 5);
    assert_true(assert_rows_tile((uint64_t)realigned_body) > 2);
    assert_true(assert_rows_tile((uint64_t)rare_sf) > 2);
    assert_true(assert_rows_tile((uint64_t)odd_depth_nine) > 0);
    static const char *const names[] = {"printf", "qsort", "malloc", "strtol", "_dl_allocate_tls"};
    int n = 0;
    for (int i = 0; i < 5; i++)
        n += assert_rows_tile((uint64_t)dlsym(RTLD_DEFAULT, names[i]));
    assert_true(n > 5); /* how many depends on how libc was compiled */
}

static void functions_of_other_modules_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {"bsearch", "strtol", "setvbuf", "getline"};
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(libc);
    for (int i = 0; i < 4; i++) {
        uint64_t address = (uint64_t)dlsym(libc, names[i]), start = 0, end = 0;
        assert_true(cfi_function(address, &start, &end));
        assert_int_equal(start, address);
        assert_true(end > start);
        struct cfi_rule rule;
        cfi_find(address, &rule);
        assert_int_equal(rule.cfa_kind, CFA_RSP);
        assert_int_equal(rule.cfa_offset, 8);
    }
    dlclose(libc);
}

__attribute__((noipa, section(".far"))) static int far_away(int x)
{
    volatile int y[8] = {x};
    return y[x & 7];
}

/* For an executable with holes (BOLT makes such) _dl_find_object returns the segment of the address, and the unwind
 * information of all. */
static void modules_with_holes_are_whole(void **state)
{
    (void)state;
    uint64_t near = (uint64_t)modules_with_holes_are_whole, far = (uint64_t)far_away, start, end;
    assert_true(far - near > 0x7000000);
    assert_true(cfi_function(near, &start, &end));
    assert_int_equal(start, near);
    assert_true(cfi_function(far, &start, &end));
    assert_int_equal(start, far);
}

static void addresses_outside_all_modules_are_unknown(void **state)
{
    (void)state;
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uint64_t addresses[] = {
        0,          1,          4096,  (uint64_t)page, (uint64_t)&page, (1ull << 47) - 1,
        1ull << 47, 1ull << 63, ~0ull,
    };
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct cfi_rule rule = {.cfa_kind = CFA_RSP};
        uint64_t start, end;
        cfi_find(addresses[i], &rule);
        assert_int_equal(rule.cfa_kind, CFA_NONE);
        assert_false(cfi_function(addresses[i], &start, &end));
    }
    munmap(page, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_pointer_function),
        cmocka_unit_test(states_are_remembered_and_restored),
        cmocka_unit_test(a_realigned_stack),
        cmocka_unit_test(a_cfa_by_rbx),
        cmocka_unit_test(a_procedure_linkage_table),
        cmocka_unit_test(locations_advance_in_all_widths),
        cmocka_unit_test(rare_instructions),
        cmocka_unit_test(initial_rules_are_restored),
        cmocka_unit_test(augmentations_are_skipped),
        cmocka_unit_test(signal_frames_and_roots_are_known),
        cmocka_unit_test(what_is_not_understood_is_unknown),
        cmocka_unit_test(a_function_is_its_fde),
        cmocka_unit_test(rows_hold_for_all_their_addresses),
        cmocka_unit_test(functions_of_other_modules_are_found),
        cmocka_unit_test(modules_with_holes_are_whole),
        cmocka_unit_test(addresses_outside_all_modules_are_unknown),
    };
    return cmocka_run_group_tests_name("cfi", tests, NULL, NULL);
}
