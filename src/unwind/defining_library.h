/* defining_library.h - the loaded library that defines a function: also one that dlsym(RTLD_DEFAULT) does not know because
 * it was loaded with RTLD_LOCAL, as extension modules are.
 *
 * Context: as loader_lock.h; it may wait until a library has been initialized that another thread loads.
 */
#ifndef PYH_DEFINING_LIBRARY_H
#define PYH_DEFINING_LIBRARY_H

/* Returns the first such library, for dlsym; it is initialized, and stays loaded.  `seen`, 0 at first, is how many were
 * loaded at the last call: where that has not changed nothing is sought.  NULL: there is none. */
void *defining_library(const char *function, unsigned long long *seen);

#endif
