/* thread_name.h - the calling thread's name, as `threading` has it.
 *
 * Context: with the GIL.
 */
#ifndef PYH_THREAD_NAME_H
#define PYH_THREAD_NAME_H

#include <stddef.h>

/* In UTF-8, cut short to `size` - 1 bytes; empty where it is none of `threading`'s threads, or where
 * finding out would run code of the program.  Leaves an exception as it is. */
void thread_name(char *to, size_t size);

#endif
