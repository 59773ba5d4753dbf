/* session.c - what one run of the sampler shares between its parts.  Private to src/sampler/.
 *
 * Context: filled by sampler_start before any signal can come, then read-only but for the fields
 * marked atomic.
 */
#include "session.h"

/* Changed with the GIL and session_lock: one of them is enough to read it. */
static struct session *the_session;
static sampler_blocking *blocking;
pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;

void sampler_set_blocking(sampler_blocking *call)
{
    blocking = call;
}

void session_block(void (*what)(void *), void *arg)
{
    if (blocking)
        blocking(what, arg);
    else
        what(arg);
}

struct session *session_get(void)
{
    return the_session;
}

void session_set(struct session *s)
{
    pthread_mutex_lock(&session_lock); /* no collector runs: it is not held for long */
    the_session = s;
    pthread_mutex_unlock(&session_lock);
}

struct session *session_lock_running(void)
{
    pthread_mutex_lock(&session_lock);
    struct session *s = the_session;
    if (s && !atomic_load(&s->stop_wanted))
        return s;
    pthread_mutex_unlock(&session_lock);
    return NULL;
}

struct session *session_forget_in_child(void)
{
    struct session *s = the_session;
    pthread_mutex_init(&session_lock, NULL); /* whoever held it is not here */
    the_session = NULL;
    return s;
}
