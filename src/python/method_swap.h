/* method_swap.h - calls of a C function of the interpreter's own modules go through one of ours.
 *
 * The function object stays as it is, whoever holds it: only what its method definition points to changes, which
 * every call reads (CPython Objects/methodobject.c, cfunction_enter_call).
 *
 * Context: with the GIL.
 */
#ifndef PYH_METHOD_SWAP_H
#define PYH_METHOD_SWAP_H

#include <Python.h>

struct method_swap {
    const char *module, *name;
    int flags; /* the calling convention that `ours` has; another one is left alone */
    PyCFunction ours;
    PyMethodDef *def; /* NULL: not found */
    PyCFunction original;
};

/* Leaves no exception set.  Without an effect where there is no such function. */
void method_swap_in(struct method_swap *m);
/* Not where somebody else has come after us.  Safe in a forked child. */
void method_swap_out(struct method_swap *m);

#endif
