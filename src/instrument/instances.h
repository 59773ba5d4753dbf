/* instances.h - objects that are frames of their own in the tree (instance_table.h): how they are found, and named.
 *
 * They are of a class that has the method, and hold those below them by name in a dictionary that is an attribute.  The
 * first that is met is the root of all it holds; one that is met later is looked for below the one that is running.
 * Nothing of the program's runs for it, and no reference to an object is kept but a weak one.
 *
 * Context: with the GIL.
 */
#ifndef PYH_INSTANCES_H
#define PYH_INSTANCES_H

#include "current_frame.h"

#include "call_tree.h"
#include "instance_table.h"

/* Looks for objects from now on.  `code` is the method; `methods` a suffix of the qualified names of others, of which
 * each is one's own where it is called without that one; `children` the attribute; `wrappers` tuples (class, name below
 * it) of objects whose content has their own path; class empty: any.  `lists` are classes of which nobody calls the
 * objects, but what is in them.  `named_inside`: a class whose objects stand for others, the attribute in which that is,
 * and the methods, in C, that lead to the name of its class.  Returns 0 or -1 with an exception set. */
int instances_set(PyObject *code, PyObject *methods, PyObject *children, PyObject *wrappers,
                  PyObject *lists, PyObject *named_inside);

/* Looks for no objects any more. */
void instances_clear(void);

/* Where a program runs the code of a file, `found(code)` is called if its name ends with `file`, and there is no method
 * yet; NULL: none is looked for.  instances_code_runs returns 0, or -1 with an exception set, which is the
 * program's. */
void instances_await(PyObject *file, PyObject *found);
int instances_code_runs(PyObject *code);

/* Calls `loaded()` once the function or Python module that runs `code` just now on the calling thread has returned.
 * Returns false if none runs it. */
bool instances_await_end(PyObject *code, PyObject *loaded);
void instances_are_loaded(void);

/* The code object is about to be freed, or just made. */
void instances_forget_code(uint64_t code);

/* Returns whether the first local variable may be an object that is one. */
bool instances_run(uint64_t code);

/* Returns what is between `parent` and the function in `f`, which it calls, and which instances_run; `parent` if
 * nothing is. */
struct exact_node *instances_node(struct exact *x, struct exact_thread *t,
                                  struct exact_node *parent, const frame_t *f);

/* Returns the node of such a function that began before, called by `parent`, for the same object.  NULL: it is to be
 * found, and instances_began to be called. */
struct exact_node *instances_lately(const struct exact *x, const struct exact_thread *t,
                                    const struct exact_node *parent, const frame_t *f);
void instances_began(const struct exact *x, const struct exact_thread *t,
                     const struct exact_node *parent, const frame_t *f, struct exact_node *node);

/* Returns whether the function in `f`, whose node this was, is still that of the same object: frames that follow one
 * another have one address. */
bool instances_same(const struct exact_thread *t, const struct exact_node *node, const frame_t *f);

/* Puts the object of the method that begins in the innermost frame, if that runs `code`, into the table. */
void instances_meet(uint64_t code);

#endif
