/* pyhybrid.h - regions of native code in the call tree that pyhybrid makes of a Python program.
 *
 *     static const pyhybrid_region *solve;
 *     if (!solve)
 *         solve = pyhybrid_region_named("solve");
 *     pyhybrid_region_push(solve);
 *     ...
 *     pyhybrid_region_pop(solve);
 *
 * What lies between push and pop is a frame of its own, `[solve]`, below the Python function that runs there: with its
 * calls, its time, each call's duration, and the samples and Python calls inside it.  On a thread that runs no Python
 * function it stands at the thread's root.  While no profiler runs, push and pop do nothing, in 2 to 5 ns.
 *
 * A region belongs to its thread, not to a function: one that a function pushes and leaves open is its caller's when it
 * returns.  Pop ends the innermost open region of this name on the thread, and whatever was pushed after it; where
 * there is none it does nothing, and is counted.  A pop in a function that Python called since the push counts when
 * that returns.
 *
 * Context: any thread, with or without Python's GIL, which is neither taken nor waited for; not in signal handlers.
 * Without the GIL, where Python functions run on the thread, the innermost one must be one that is profiled: else the
 * region is not counted, which `report quality` shows.  Live outputs get regions only with the GIL.
 *
 * The functions are in libpyhybrid.so, which lies beside the package's other files: pyhybrid.get_library() is its path,
 * pyhybrid.get_include() this file's folder.
 */
#ifndef PYHYBRID_H
#define PYHYBRID_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pyhybrid_region pyhybrid_region;

/* Returns the region of this name, UTF-8: always the same one, for the process's life.  Of more than 65,535 names the
 * rest is called "[other]".  NULL: no memory. */
const pyhybrid_region *pyhybrid_region_named(const char *name);

/* They ignore what pyhybrid_region_named has not returned; pop(NULL) ends the innermost one of the thread. */
void pyhybrid_region_push(const pyhybrid_region *region);
void pyhybrid_region_pop(const pyhybrid_region *region);

/* Values that are sampled while a profiler runs: how many, their sum, least, largest and sum of squares go to the
 * profile.  4,095 names.  A few ten ns, more where several threads sample the same counter at once. */
typedef struct pyhybrid_counter pyhybrid_counter;
const pyhybrid_counter *pyhybrid_counter_named(const char *name);
void pyhybrid_counter_sample(const pyhybrid_counter *counter, double value);

/* A fact about the program, UTF-8, at any time; the last value of a name is in each profile that ends after it. */
void pyhybrid_metadata_set(const char *name, const char *value);

#ifdef __cplusplus
}
#endif

#endif
