/* Stacks by hand.  Native code lies at 0x100, the eval loop at 0x1000; stack addresses grow
 * outwards: 100, 200, ... are CFAs. */
#include "unit.h"

#include <string.h>

#include "frame.h"
#include "join.h"

#define EVAL 0x1100
#define MAX 32

#define N(address) frame_native(address)
#define P(i) frame_python(i, 10 * (i))
#define X(which) frame_pseudo(PSEUDO_##which)
#define LIST(type, ...)                                                                            \
    (const type[]){__VA_ARGS__}, sizeof((const type[]){__VA_ARGS__}) / sizeof(type)
#define NATIVE(...) LIST(struct native_frame, __VA_ARGS__)
#define WORDS(...) LIST(uint64_t, __VA_ARGS__)

static const struct py_layout layout = {.eval = {0x1000, 0x2000}, .eval_entry = {0x3000, 0x3100}};
static uint64_t python[MAX], anchors[MAX];
static struct py_entry entries[MAX];
static struct py_frame frames[MAX]; /* of no code: only words count here */
static struct py_chain chain;
static struct join_input input;

static int set_up(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < MAX; i++)
        python[i] = P(i + 1);
    chain = (struct py_chain){
        .frames = frames, .entries = entries, .anchors = anchors, .state = PY_COMPLETE};
    input = (struct join_input){
        .chain = &chain, .python = python, .layout = &layout, .end = UNWIND_COMPLETE};
    return 0;
}

/* The next eval loop outwards: its entry frame is at `anchor`, and it runs `n` Python frames. */
static void eval_loop(uint64_t anchor, uint32_t n)
{
    chain.n_frames += n;
    anchors[chain.n_entries] = anchor;
    entries[chain.n_entries++].n_frames = (uint32_t)chain.n_frames;
}

static void native(const struct native_frame *frames, size_t n)
{
    input.native = frames;
    input.n_native = n;
}

static void expect_within(size_t max, const uint64_t *words, size_t n)
{
    uint64_t out[MAX + 1];
    for (size_t i = 0; i <= MAX; i++)
        out[i] = 0xdead;
    assert_int_equal(join_stack(&input, out, max), n);
    for (size_t i = 0; i < n; i++)
        if (out[i] != words[i])
            fail_msg("word %zu is %#lx instead of %#lx", i, (unsigned long)out[i],
                     (unsigned long)words[i]);
    for (size_t i = max; i <= MAX; i++)
        assert_int_equal(out[i], 0xdead);
}

static void expect(const uint64_t *words, size_t n)
{
    expect_within(MAX, words, n);
}

static void native_frames_alone_stay_as_they_are(void **state)
{
    (void)state;
    chain.state = PY_NONE;
    native(NATIVE({0x101, 100, 0}, {0x102, 200, 0}, {0x103, ~0ull, 0}));
    expect(WORDS(N(0x101), N(0x102), N(0x103)));
}

static void python_frames_stand_for_their_eval_loop(void **state)
{
    (void)state;
    eval_loop(150, 2);
    native(NATIVE({0x101, 100, 0}, {EVAL, 200, 0}, {0x102, ~0ull, 0}));
    expect(WORDS(N(0x101), P(1), P(2), N(0x102)));
}

static void native_frames_stand_between_runs(void **state)
{
    (void)state;
    eval_loop(150, 1);
    eval_loop(450, 3);
    eval_loop(550, 1);
    native(NATIVE({EVAL, 200, 0}, {0x101, 300, 0}, {0x102, 400, 0}, {EVAL, 500, 0}, {EVAL, 600, 0},
                  {0x103, ~0ull, 0}));
    expect(WORDS(P(1), N(0x101), N(0x102), P(2), P(3), P(4), P(5), N(0x103)));
}

/* Joined by address, not by name: any frame that holds an entry frame is an eval loop. */
static void the_frame_that_holds_the_entry_is_replaced_wherever_it_executes(void **state)
{
    (void)state;
    eval_loop(150, 1);
    native(NATIVE({0x101, 100, 0}, {0x102, 200, 0}, {0x103, ~0ull, 0}));
    expect(WORDS(N(0x101), P(1), N(0x103)));
}

/* It jumps to the next one's, and calls what the Python function calls.  The eval loop is inlined, anywhere. */
static void a_handler_of_an_instruction_is_the_eval_loop(void **state)
{
    (void)state;
    static const struct py_layout by_handlers = {.eval = {0x1000, 0x2000}, .by_handlers = true};
    eval_loop(250, 1);
    eval_loop(550, 1);
    native(NATIVE({0x101, 100, 0}, {0x102, 200, 0}, {EVAL, 300, 0}, {0x103, 400, 0},
                  {0x104, 500, 0}, {0x106, 600, 0}, {0x105, ~0ull, 0}));
    expect(WORDS(N(0x101), N(0x102), P(1), N(0x103), N(0x104), P(2), N(0x105)));
    input.layout = &by_handlers;
    expect(WORDS(N(0x101), P(1), N(0x103), P(2), N(0x105)));
    native(NATIVE({0x102, 200, 0}, {EVAL, 300, 0}, {0x101, 400, 0}, {0, 500, NATIVE_GAP_SCANNED},
                  {EVAL, 600, 0}, {0x105, ~0ull, 0}));
    expect(WORDS(P(1), N(0x101), X(BRIDGED), P(2), N(0x105)));
}

static void a_frame_owns_the_bytes_below_its_cfa(void **state)
{
    (void)state;
    eval_loop(200, 1); /* first byte of the second frame */
    native(NATIVE({0x101, 200, 0}, {EVAL, 300, 0}, {0x102, ~0ull, 0}));
    expect(WORDS(N(0x101), P(1), N(0x102)));
    anchors[0] = 299; /* its last byte */
    expect(WORDS(N(0x101), P(1), N(0x102)));
}

static void an_eval_loop_before_its_first_python_frame_is_dropped(void **state)
{
    (void)state;
    eval_loop(250, 2);
    native(NATIVE({EVAL, 100, 0}, {0x101, 200, 0}, {EVAL, 300, 0}, {0x102, ~0ull, 0}));
    expect(WORDS(N(0x101), P(1), P(2), N(0x102)));
}

static void where_it_begins_may_lie_elsewhere(void **state)
{
    (void)state;
    eval_loop(250, 1);
    native(NATIVE({0x3010, 100, 0}, {0x101, 200, 0}, {EVAL, 300, 0}, {0x3100, ~0ull, 0}));
    expect(WORDS(N(0x101), P(1), N(0x3100)));
}

static void an_empty_run_leaves_nothing(void **state)
{
    (void)state;
    eval_loop(50, 0);
    eval_loop(150, 1);
    native(NATIVE({EVAL, 100, 0}, {EVAL, 200, 0}, {0x102, ~0ull, 0}));
    expect(WORDS(P(1), N(0x102)));
}

static void a_broken_chain_leaves_unknown_python(void **state)
{
    (void)state;
    eval_loop(50, 2);
    chain.state = PY_BROKEN;
    native(
        NATIVE({EVAL, 100, 0}, {0x101, 200, 0}, {EVAL, 300, 0}, {EVAL, 400, 0}, {0x102, ~0ull, 0}));
    expect(WORDS(P(1), P(2), N(0x101), X(UNKNOWN_PYTHON), X(UNKNOWN_PYTHON), N(0x102)));
}

/* The chain breaks off, or is cut, inside a run: the frames before that are good. */
static void frames_of_an_unfinished_run_are_kept(void **state)
{
    (void)state;
    eval_loop(50, 1);
    chain.n_frames += 2; /* of the next eval loop, whose entry frame was not reached */
    native(NATIVE({EVAL, 100, 0}, {0x101, 200, 0}, {EVAL, 300, 0}, {0x102, 400, 0}, {EVAL, 500, 0},
                  {0x103, ~0ull, 0}));
    for (chain.state = PY_TRUNCATED; chain.state <= PY_BROKEN; chain.state++)
        expect(WORDS(P(1), N(0x101), P(2), P(3), X(UNKNOWN_PYTHON), N(0x102), X(UNKNOWN_PYTHON),
                     N(0x103)));
}

static void an_eval_loop_in_its_prologue_takes_nothing_from_a_broken_chain(void **state)
{
    (void)state;
    eval_loop(250, 1);
    chain.n_frames += 1;
    chain.state = PY_BROKEN;
    native(NATIVE({EVAL, 100, 0}, {0x101, 200, 0}, {EVAL, 300, 0}, {0x102, 400, 0}, {EVAL, 500, 0},
                  {0x103, ~0ull, 0}));
    expect(WORDS(N(0x101), P(1), N(0x102), P(2), X(UNKNOWN_PYTHON), N(0x103)));
}

static void the_frames_of_another_interpreter_are_not_guessed(void **state)
{
    (void)state;
    chain.state = PY_OTHER;
    native(NATIVE({0x101, 100, 0}, {EVAL, 200, 0}, {0x102, ~0ull, 0}));
    expect(WORDS(N(0x101), X(OTHER_INTERPRETER), N(0x102)));
}

static void a_gap_is_named_by_what_is_known_of_it(void **state)
{
    (void)state;
    chain.state = PY_NONE;
    native(NATIVE({0x101, 100, 0}, {0, 200, NATIVE_GAP_SCANNED}, {0x102, 300, 0},
                  {0, 400, NATIVE_GAP_ANCHORED}, {0x103, 500, 0}, {0, 600, NATIVE_GAP_GUESSED},
                  {0x104, ~0ull, 0}));
    expect(WORDS(N(0x101), X(BRIDGED), N(0x102), X(GAP), N(0x103), X(GAP), N(0x104)));
}

/* The walk jumped to an anchor: the gap covers the eval loop that holds it. */
static void python_frames_inside_a_gap_stand_behind_it(void **state)
{
    (void)state;
    eval_loop(150, 1);
    eval_loop(180, 1);
    native(NATIVE({0x101, 100, 0}, {0, 200, NATIVE_GAP_ANCHORED}, {0x102, ~0ull, 0}));
    expect(WORDS(N(0x101), X(GAP), P(1), P(2), N(0x102)));
}

static void python_frames_outside_a_truncated_walk_still_hold(void **state)
{
    (void)state;
    eval_loop(150, 1);
    eval_loop(350, 2);
    eval_loop(450, 1);
    native(NATIVE({0x101, 100, 0}, {EVAL, 200, 0}, {0x102, 300, 0}));
    input.end = UNWIND_TRUNCATED;
    expect(WORDS(N(0x101), P(1), N(0x102), X(GAP), P(2), P(3), X(GAP), P(4), X(TRUNCATED)));
    input.end = UNWIND_TOO_DEEP;
    expect(WORDS(N(0x101), P(1), N(0x102), X(GAP), P(2), P(3), X(GAP), P(4), X(TRUNCATED)));
}

static void what_does_not_fit_is_cut_at_the_outer_end(void **state)
{
    (void)state;
    eval_loop(150, 2);
    native(NATIVE({0x101, 100, 0}, {EVAL, 200, 0}, {0x102, ~0ull, 0}));
    expect_within(5, WORDS(N(0x101), P(1), P(2), N(0x102)));
    expect_within(4, WORDS(N(0x101), P(1), P(2), N(0x102)));
    expect_within(3, WORDS(N(0x101), P(1), X(TRUNCATED)));
    expect_within(2, WORDS(N(0x101), X(TRUNCATED)));
    expect_within(1, WORDS(X(TRUNCATED)));
}

static void a_single_frame_fits_in_one_word(void **state)
{
    (void)state;
    chain.state = PY_NONE;
    native(NATIVE({0x101, ~0ull, 0}));
    expect_within(1, WORDS(N(0x101)));
}

static void a_stack_is_never_empty(void **state)
{
    (void)state;
    native(NULL, 0);
    expect_within(1, WORDS(X(TRUNCATED)));
    input.end = UNWIND_TRUNCATED;
    expect_within(1, WORDS(X(TRUNCATED)));
    input.end = UNWIND_COMPLETE;
    native(NATIVE({EVAL, 100, 0}));
    expect(WORDS(X(TRUNCATED)));
}

static struct causes causes = {.n = 2};

static void work_for_a_call_stands_below_the_function_that_does_it(void **state)
{
    (void)state;
    causes.at[0].address = 450;
    causes.at[0].word = X(KERNEL);
    causes.at[1].address = 250;
    causes.at[1].word = X(TREE_FULL);
    input.causes = &causes;
    eval_loop(350, 1);
    native(NATIVE({0x101, 100, 0}, {0x102, 200, 0}, {0x103, 300, 0}, {EVAL, 400, 0},
                  {0x104, 500, 0}, {0x105, ~0ull, 0}));
    expect(WORDS(N(0x101), N(0x102), X(TREE_FULL), N(0x103), P(1), X(KERNEL), N(0x104), N(0x105)));
}

/* A gap stands for that function, too; where the walk ended, what is known of the rest stands further out. */
static void work_for_a_call_stands_below_the_gap_that_has_the_function(void **state)
{
    (void)state;
    input.causes = &causes;
    eval_loop(350, 1);
    native(NATIVE({0x101, 100, 0}, {0, 300, NATIVE_GAP_ANCHORED}, {EVAL, 400, 0}, {0x104, 500, 0},
                  {0x105, ~0ull, 0}));
    expect(WORDS(N(0x101), X(TREE_FULL), X(GAP), P(1), X(KERNEL), N(0x104), N(0x105)));
    input.end = UNWIND_TRUNCATED;
    native(NATIVE({0x101, 100, 0}));
    expect(WORDS(N(0x101), X(TREE_FULL), X(GAP), P(1), X(KERNEL), X(TRUNCATED)));
    chain.state = PY_STOPPED;
    expect(WORDS(N(0x101), X(TREE_FULL), X(GAP), P(1), X(TRUNCATED)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(native_frames_alone_stay_as_they_are, set_up),
        cmocka_unit_test_setup(python_frames_stand_for_their_eval_loop, set_up),
        cmocka_unit_test_setup(native_frames_stand_between_runs, set_up),
        cmocka_unit_test_setup(the_frame_that_holds_the_entry_is_replaced_wherever_it_executes,
                               set_up),
        cmocka_unit_test_setup(a_handler_of_an_instruction_is_the_eval_loop, set_up),
        cmocka_unit_test_setup(a_frame_owns_the_bytes_below_its_cfa, set_up),
        cmocka_unit_test_setup(an_eval_loop_before_its_first_python_frame_is_dropped, set_up),
        cmocka_unit_test_setup(where_it_begins_may_lie_elsewhere, set_up),
        cmocka_unit_test_setup(an_empty_run_leaves_nothing, set_up),
        cmocka_unit_test_setup(a_broken_chain_leaves_unknown_python, set_up),
        cmocka_unit_test_setup(frames_of_an_unfinished_run_are_kept, set_up),
        cmocka_unit_test_setup(an_eval_loop_in_its_prologue_takes_nothing_from_a_broken_chain,
                               set_up),
        cmocka_unit_test_setup(the_frames_of_another_interpreter_are_not_guessed, set_up),
        cmocka_unit_test_setup(a_gap_is_named_by_what_is_known_of_it, set_up),
        cmocka_unit_test_setup(python_frames_inside_a_gap_stand_behind_it, set_up),
        cmocka_unit_test_setup(python_frames_outside_a_truncated_walk_still_hold, set_up),
        cmocka_unit_test_setup(work_for_a_call_stands_below_the_function_that_does_it, set_up),
        cmocka_unit_test_setup(work_for_a_call_stands_below_the_gap_that_has_the_function, set_up),
        cmocka_unit_test_setup(what_does_not_fit_is_cut_at_the_outer_end, set_up),
        cmocka_unit_test_setup(a_single_frame_fits_in_one_word, set_up),
        cmocka_unit_test_setup(a_stack_is_never_empty, set_up),
    };
    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
