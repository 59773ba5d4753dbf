/* tasks.h - asyncio's tasks below the call that made them (--tasks).
 *
 * A task's coroutine is run by the event loop, again and again.  Where it is known which call made the task, the
 * coroutine's turns stand below a [task] of that call instead of below the event loop, with their samples and times.
 *
 * A [task] stands below the innermost function around that is none of asyncio's.  A task that is made below one of the
 * same coroutine function stands beside that one, so that tasks that make the next one for ever have a path that ends.
 *
 * Context: with the GIL.
 */
#ifndef PYH_TASKS_H
#define PYH_TASKS_H

#include "current_frame.h"

#include "call_tree.h"
#include "turns.h"

/* Where x->tasks is set, tasks that are made are noted from now on, or once asyncio is there.  They leave no exception
 * set. */
void tasks_start(struct exact *x);
void tasks_stop(void);

/* A program is about to run the code of a file. */
void tasks_code_runs(PyObject *code);

/* Returns the [task] of what runs in `f`, which C code has called, if it is a task's coroutine of which is known which
 * call on this thread made it; else NULL. */
struct exact_node *tasks_node(const struct exact_thread *t, const frame_t *f);

/* Returns EXACT_TASK for what is about to stand on top of the stack, below `parent`, if it is a task's turn, or the
 * outermost function in it where a filter leaves out those further out; else 0. */
uint64_t tasks_flag(const struct exact_thread *t, const struct exact_node *parent);

/* The top of the stack, which is EXACT_TASK, ends `now`: its time is that of the calls that its path has, and none of
 * the event loop's. */
void tasks_end_turn(struct exact_thread *t, uint64_t now);

/* What runs in `f`, a task's coroutine, has returned or raised. */
void tasks_ended(const frame_t *f);

#endif
