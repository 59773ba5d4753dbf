/* method_names.h - the names by which Python reaches C functions, read from the live interpreter.
 *
 * Symbol tables are silent about stripped extensions; the interpreter is not.  Of everything that its garbage
 * collector knows are looked at: builtin functions, method and getset descriptors, slot wrappers, and the
 * types that these belong to.  A function of several names is told several times, at most
 * METHOD_NAMES_MAX + 1 times: one that has more is shared code (a binding generator's dispatcher).
 *
 *     torch._C._nn.linear              a builtin function: its module and name
 *     numpy.ndarray.sort               a method: its type and name
 *     torch._C.TensorBase.grad.__get__ a getter (__set__: the setter)
 *     numpy.ndarray.__add__            a slot, by its wrapper
 *     numpy.ndarray.tp_dealloc         a slot that has no wrapper
 *
 * Nothing is imported, created for the program or kept alive; no code of the program runs: names are plain
 * strings of the objects, those that are not ASCII are left out.
 *
 * Sources: Objects/descrobject.c, Objects/methodobject.c, Modules/gcmodule.c (Python/gc.c) of CPython 3.12 to 3.15.
 * Context: with the GIL.  Ends after METHOD_NAMES_BUDGET_NS, however many objects there are.
 */
#ifndef PYH_METHOD_NAMES_H
#define PYH_METHOD_NAMES_H

#include "function_names.h"

#define METHOD_NAMES_MAX 8
#define METHOD_NAMES_BUDGET_NS 250000000ull

void method_names_collect(const struct function_names *to);

#endif
