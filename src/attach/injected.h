/* injected.h - the code that runs in another process, which inject.c copies there: position-independent, without a call
 * or datum of its own but by `struct injected`.
 *
 * It lies in a mapping of its own, which goes when it is done: nothing of ours stays in the process.
 */
#ifndef PYH_INJECTED_H
#define PYH_INJECTED_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* Functions of the process, by its addresses; what the code is to do. */
struct injected {
    void *mapping; /* these three are known to assembly */
    size_t mapping_size;
    int (*unmap)(void *, size_t);
    int *(*errno_location)(void);
    int (*set_mask)(int, const sigset_t *, sigset_t *);
    int (*thread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int (*thread_detach)(pthread_t);
    int (*gil_ensure)(void);
    void (*gil_release)(int);
    void *(*dict)(void);
    void *(*compile)(const char *, const char *, int);
    void *(*eval)(void *, void *, void *);
    void (*clear)(void);
    void (*decref)(void *);
    void *(*thread_body)(void *);
    sigset_t all, old;
    pthread_t thread;
    volatile int released; /* the thread that was borrowed has left the mapping */
    char text[4096], file[1024];
};

/* Where the code begins and ends, in this process. */
extern const char injected_start[] __asm__("__start_pyh_injected");
extern const char injected_end[] __asm__("__stop_pyh_injected");

/* Each is the code that the borrowed thread calls, and returns 0 or an error's number: it makes a thread that takes the
 * GIL and runs the text. */
long injected_make_thread(struct injected *in);
/* Whether the mapping may go then. */
int injected_run(struct injected *in);
int injected_run_in_thread(struct injected *in);
/* The thread's function. */
void *injected_thread(void *argument);
/* A pending call: runs the text in the main thread. */
int injected_pending(void *argument);

#endif
