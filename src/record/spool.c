#include "spool.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "map.h"
#include "own_fd.h"

#define BUFFER (256 * 1024)

struct spool {
    pthread_mutex_t lock;
    struct own_fd file; /* never is a file written to that is not ours */
    int error;          /* the first one; nothing is written after it */
    size_t used;
    unsigned char buffer[BUFFER];
};

static int write_out(struct spool *s, const void *data, size_t length)
{
    const char *p = data;
    if (!s->error && !own_fd_is(&s->file))
        s->error = -EBADF;
    while (!s->error && length) {
        ssize_t n = write(s->file.fd, p, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            s->error = -errno;
        } else {
            p += n;
            length -= (size_t)n;
        }
    }
    return s->error;
}

static void flush(struct spool *s)
{
    if (s->used)
        write_out(s, s->buffer, s->used);
    s->used = 0;
}

int spool_flush(struct spool *s)
{
    pthread_mutex_lock(&s->lock);
    flush(s);
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

static void put(struct spool *s, const void *data, size_t length)
{
    if (!length)
        return;
    if (s->used + length > BUFFER)
        flush(s);
    if (length > BUFFER) {
        write_out(s, data, length);
        return;
    }
    memcpy(s->buffer + s->used, data, length);
    s->used += length;
}

int spool_open(struct spool **out, int fd, int fd_floor)
{
    struct spool *s = map_memory(sizeof *s);
    if (!s)
        return -ENOMEM;
    int error = own_fd_duplicate(&s->file, fd, fd_floor);
    if (error) {
        map_memory_free(s, sizeof *s);
        return error;
    }
    pthread_mutex_init(&s->lock, NULL);
    struct spool_header header = {.magic = SPOOL_MAGIC, .version = SPOOL_VERSION};
    header.pid = (uint32_t)getpid();
    put(s, &header, sizeof header);
    *out = s;
    return 0;
}

int spool_append(struct spool *s, uint32_t type, const void *head, size_t head_length,
                 const void *body, size_t body_length)
{
    static const char zeros[8];
    size_t length = head_length + body_length;
    struct spool_record record = {type, (uint32_t)length};
    pthread_mutex_lock(&s->lock);
    put(s, &record, sizeof record);
    put(s, head, head_length);
    put(s, body, body_length);
    put(s, zeros, -length & 7);
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

void spool_close(struct spool *s)
{
    if (!s)
        return;
    spool_abandon(s);
    map_memory_free(s, sizeof *s);
}

void spool_abandon(struct spool *s)
{
    own_fd_close(&s->file);
}
