/* native_path.h - the native frames between an eval loop and the one that called it, as nodes.
 *
 * Context: the exact half's callbacks, on the thread whose stack it is.
 */
#ifndef PYH_NATIVE_PATH_H
#define PYH_NATIVE_PATH_H

#include "call_tree.h"

/* The node below `parent` for the frames between the eval loop that has the entry frame at `entry`
 * and the one that has `outer_entry`, which is `parent`'s; 0: up to what runs the program, or the thread's root. */
struct exact_node *native_path(struct exact *x, struct exact_thread *t, struct exact_node *parent,
                               uint64_t entry, uint64_t outer_entry);

/* The same where the thread's memo has it; NULL: native_path is to find it. */
struct exact_node *native_path_known(const struct exact *x, const struct exact_thread *t,
                                     const struct exact_node *parent, uint64_t entry,
                                     uint64_t outer_entry);

#endif
