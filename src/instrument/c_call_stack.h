/* c_call_stack.h - C functions that Python functions wait for: beside the shadow stack, since Python
 * functions that they call back look there for their Python caller.
 *
 * Context: callbacks of sys.monitoring: with the GIL.
 */
#ifndef PYH_C_CALL_STACK_H
#define PYH_C_CALL_STACK_H

#include "call_tree.h"

/* The innermost Python frame, that runs `code`, calls the C function that starts at `function` (0: no C
 * function).  False: it is left out by a filter. */
bool c_call_begins(uint64_t code, uint64_t function);

/* It returns, or raises. */
void c_call_returns(uint64_t code, bool raised);

/* The C function that the stack's frame `i` waits for has ended, or must have. */
void c_call_ends(struct exact_thread *t, uint32_t i, uint64_t now);

#endif
