/* orphan.h - starts a program that is no child of this process: its wait() does not see it, and no SIGCHLD comes.
 *
 * Context: ordinary; no Python.
 */
#ifndef PYH_ORPHAN_H
#define PYH_ORPHAN_H

/* Would an orphan be a child of this process, as that of process 1 and of a subreaper is? */
int orphan_comes_back(void);

/* `path` with these arguments and this environment; its standard streams are /dev/null, its descriptor 3 is
 * `lock` (-1: none).  0 or -errno. */
int orphan_spawn(const char *path, char *const argv[], char *const environment[], int lock);

#endif
