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

/* Both return whether the mapping may go. */

INJECTED int injected_run(struct injected *in)
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
    return in->released;
}

INJECTED int injected_run_in_thread(struct injected *in)
{
    int state = in->gil_ensure();
    injected_run(in);
    in->gil_release(state);
    return in->released;
}

/* The last thing is a jump to munmap, with the arguments that are the first fields: it returns to what called this,
 * which gets its 0. */
#define RUN_AND_GO(run)                                                                            \
    __asm__("push %rbx\n mov %rdi, %rbx\n call " run "\n test %eax, %eax\n jz 1f\n"                \
            "mov (%rbx), %rdi\n mov 8(%rbx), %rsi\n mov 16(%rbx), %rax\n pop %rbx\n jmp *%rax\n"   \
            "1: pop %rbx\n ret")

INJECTED __attribute__((naked)) void *injected_thread(void *argument __attribute__((unused)))
{
    RUN_AND_GO("injected_run_in_thread");
}

INJECTED __attribute__((naked)) int injected_pending(void *argument __attribute__((unused)))
{
    RUN_AND_GO("injected_run");
}
