/* What is done in the process; nothing here may call but by `in`.  No memset or memcpy may come of it, either. */
#include "injected.h"

#define INJECTED                                                                                   \
    __attribute__((section("pyh_injected"), noinline, used, no_stack_protector,                    \
                   no_sanitize("address", "thread", "undefined")))
#define FILE_INPUT 257 /* Py_file_input */

INJECTED long injected_make_thread(struct injected *in)
{
    int error = *in->errno_location();
    in->set_mask(SIG_SETMASK, &in->all, &in->old); /* the program's signals are not for it */
    long r = in->thread_create(&in->thread, NULL, in->thread_body, in);
    if (!r)
        in->thread_detach(in->thread);
    in->set_mask(SIG_SETMASK, &in->old, NULL);
    *in->errno_location() = error;
    return r;
}

static inline __attribute__((always_inline)) void run_text(struct injected *in)
{
    void *globals = in->dict();
    void *code = globals ? in->compile(in->text, in->file, FILE_INPUT) : NULL;
    void *result = code ? in->eval(code, globals, globals) : NULL;
    if (!result)
        in->clear(); /* the text reports what goes wrong itself: stderr is the program's */
    if (result)
        in->decref(result);
    if (code)
        in->decref(code);
    if (globals)
        in->decref(globals);
}

/* The mapping goes by a tail call: munmap returns to what called this. */
INJECTED void *injected_thread(void *argument)
{
    struct injected *in = argument;
    int state = in->gil_ensure();
    run_text(in);
    in->gil_release(state);
    if (!in->released)
        return NULL;
    return in->unmap(in->mapping, in->mapping_size);
}

INJECTED int injected_pending(void *argument)
{
    struct injected *in = argument;
    run_text(in);
    if (!in->released)
        return 0;
    return (int)(intptr_t)in->unmap(in->mapping, in->mapping_size);
}
