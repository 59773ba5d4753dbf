/* proc_stat.h - `stat` of a process or thread in /proc (man 5 proc).
 *
 * Context: any thread; not async-signal-safe.
 */
#ifndef PYH_PROC_STAT_H
#define PYH_PROC_STAT_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define PROC_STAT_BYTES 1024

/* Fields by their numbers; the second one is the name, in parentheses. */
enum { PROC_STAT_FLAGS = 9, PROC_STAT_NUM_THREADS = 20, PROC_STAT_STARTTIME = 22 };

/* Reads the file `path`, in the folder of that descriptor or AT_FDCWD.  Returns false if it cannot be read. */
static inline bool proc_stat_read(int folder, const char *path, char text[PROC_STAT_BYTES])
{
    int fd = TEMP_FAILURE_RETRY(openat(folder, path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return false;
    ssize_t n = TEMP_FAILURE_RETRY(read(fd, text, PROC_STAT_BYTES - 1));
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Returns a field from the third on, with the blank before it; NULL: there is none.  A name may have any character. */
static inline const char *proc_stat_field(const char *text, int field)
{
    const char *p = strrchr(text, ')');
    for (int at = 2; p && at < field; at++)
        p = strchr(p + 1, ' ');
    return p;
}

#endif
