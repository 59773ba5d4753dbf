#include "spool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "map.h"
#include "own_fd.h"

#define BUFFER (256 * 1024)

/* Records that came while another was written, in memory that grows. */
struct posted {
    unsigned char *data;
    size_t bytes, used;
};

#define HANGS_NS 20000000 /* a write that takes longer: the disk does not answer */

struct spool {
    pthread_mutex_t post_lock; /* of `posted`; never held during a write */
    struct posted posted;
    pthread_mutex_t lock; /* of the rest */
    struct posted taken;  /* the last ones: memory for the next */
    struct own_fd file;   /* never is a file written to that is not ours */
    int fd_floor;
    char path[4096];                  /* where the file is; empty: not known */
    int error;                        /* the first one; nothing is written after it */
    uint64_t end;                     /* of the file */
    _Atomic uint64_t writes_since_ns; /* 0: nothing is being written */
    uint64_t round;                   /* the one that is being written, from 1 */
    bool is_begun;                    /* something of it is written */
    size_t used;
    unsigned char buffer[BUFFER]; /* what comes at the file's end */
};

/* Is the file there to be written to?  A daemon closes all descriptors: it is opened again. */
static bool is_there(struct spool *s)
{
    struct own_fd again;
    if (own_fd_is(&s->file))
        return true;
    if (!*s->path || own_fd_keep(&again, open(s->path, O_RDWR | O_CLOEXEC), s->fd_floor))
        return false;
    if (again.device == s->file.device && again.inode == s->file.inode)
        s->file = again;
    else
        close(again.fd);
    return s->file.fd == again.fd;
}

static int write_at(struct spool *s, const void *data, size_t length, uint64_t at)
{
    const char *p = data;
    if (!s->error && !is_there(s))
        s->error = -EBADF;
    while (!s->error && length) {
        atomic_store_explicit(&s->writes_since_ns, clock_now_ns(), memory_order_relaxed);
        ssize_t n = pwrite(s->file.fd, p, length, (off_t)at);
        atomic_store_explicit(&s->writes_since_ns, 0, memory_order_relaxed);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            s->error = -errno;
        } else {
            p += n;
            at += (size_t)n;
            length -= (size_t)n;
        }
    }
    return s->error;
}

static void flush(struct spool *s)
{
    if (s->used)
        write_at(s, s->buffer, s->used, s->end);
    s->end += s->used;
    s->used = 0;
}

static void put(struct spool *s, const void *data, size_t length)
{
    if (!length)
        return;
    if (s->used + length > BUFFER)
        flush(s);
    if (length > BUFFER) {
        write_at(s, data, length, s->end);
        s->end += length;
        return;
    }
    memcpy(s->buffer + s->used, data, length);
    s->used += length;
}

static void put_zeros(struct spool *s, size_t length)
{
    static const char zeros[4096];
    for (; length > sizeof zeros; length -= sizeof zeros)
        put(s, zeros, sizeof zeros);
    put(s, zeros, length);
}

/* Takes the lock to write; what was posted comes first. */
static void lock(struct spool *s)
{
    pthread_mutex_lock(&s->lock);
    pthread_mutex_lock(&s->post_lock);
    struct posted taken = s->posted;
    s->posted = s->taken;
    pthread_mutex_unlock(&s->post_lock);
    put(s, taken.data, taken.used);
    taken.used = 0;
    s->taken = taken;
}

/* Adler-32 of what `sum` (at first 1) is of, and `data`. */
static uint32_t check(uint32_t sum, const void *data, size_t length)
{
    const unsigned char *p = data;
    uint32_t a = sum & 0xffff, b = sum >> 16;
    while (length) {
        size_t n = length < 5552 ? length : 5552; /* so many do not overflow */
        length -= n;
        for (; n >= 8; n -= 8, p += 8) {
            b += 8 * a + 8u * p[0] + 7u * p[1] + 6u * p[2] + 5u * p[3] + 4u * p[4] + 3u * p[5] +
                 2u * p[6] + p[7];
            a += 0u + p[0] + p[1] + p[2] + p[3] + p[4] + p[5] + p[6] + p[7];
        }
        while (n--) {
            a += *p++;
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
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
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", s->file.fd);
    ssize_t n = readlink(link, s->path, sizeof s->path - 1);
    s->path[n > 0 && s->path[0] == '/' ? n : 0] = 0;
    s->fd_floor = fd_floor;
    pthread_mutex_init(&s->post_lock, NULL);
    pthread_mutex_init(&s->lock, NULL);
    s->round = 1;
    struct spool_header header = {.magic = SPOOL_MAGIC, .version = SPOOL_VERSION};
    header.pid = (uint32_t)getpid();
    put(s, &header, sizeof header);
    *out = s;
    return 0;
}

static struct spool_record record_head(uint32_t type, size_t length)
{
    struct spool_record r = {.mark = SPOOL_MARK, .type = type, .length = (uint32_t)length};
    r.check = check(1, &r.type, sizeof r.type + sizeof r.length);
    return r;
}

static struct spool_record append_head(uint32_t type, const void *head, size_t head_length,
                                       const void *body, size_t body_length)
{
    struct spool_record record = record_head(type, head_length + body_length);
    record.check = check(check(record.check, head, head_length), body, body_length);
    return record;
}

int spool_append(struct spool *s, uint32_t type, const void *head, size_t head_length,
                 const void *body, size_t body_length)
{
    struct spool_record record = append_head(type, head, head_length, body, body_length);
    lock(s);
    put(s, &record, sizeof record);
    put(s, head, head_length);
    put(s, body, body_length);
    put_zeros(s, -(head_length + body_length) & 7);
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

int spool_post(struct spool *s, uint32_t type, const void *head, size_t head_length,
               const void *body, size_t body_length)
{
    struct spool_record record = append_head(type, head, head_length, body, body_length);
    size_t length = (sizeof record + head_length + body_length + 7) & ~(size_t)7;
    pthread_mutex_lock(&s->post_lock);
    struct posted *p = &s->posted;
    bool has_room = map_memory_grow(&p->data, &p->bytes, p->used + length, 1);
    if (has_room) {
        unsigned char *at = p->data + p->used;
        memset(at + length - 8, 0, 8); /* its end may be padding */
        memcpy(at, &record, sizeof record);
        memcpy(at + sizeof record, head, head_length);
        memcpy(at + sizeof record + head_length, body, body_length);
        p->used += length;
    }
    pthread_mutex_unlock(&s->post_lock);
    return has_room ? 0 : spool_append(s, type, head, head_length, body, body_length);
}

int spool_flush(struct spool *s)
{
    lock(s);
    flush(s);
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

static void put_half(struct spool *s, const void *head, size_t head_length, const void *body,
                     size_t body_length)
{
    struct spool_half half = {.length = (uint32_t)(head_length + body_length), .round = s->round};
    uint32_t sum =
        check(check(1, &half.length, sizeof half.length), &half.round, sizeof half.round);
    half.check = check(check(sum, head, head_length), body, body_length);
    put(s, &half, sizeof half);
    put(s, head, head_length);
    put(s, body, body_length);
}

int spool_replace(struct spool *s, struct spool_place *place, uint32_t type, size_t capacity,
                  const void *head, size_t head_length, const void *body, size_t body_length)
{
    size_t length = sizeof(struct spool_half) + head_length + body_length;
    if (length > BUFFER || head_length + body_length > capacity)
        return -EINVAL;
    lock(s);
    if (!place->at) { /* with room for both halves: later the disk may be full */
        place->half_bytes = (uint32_t)((sizeof(struct spool_half) + capacity + 7) & ~7ull);
        struct spool_record record = record_head(type | SPOOL_REPLACED, 2ull * place->half_bytes);
        put(s, &record, sizeof record);
        place->at = s->end + s->used;
        put_half(s, head, head_length, body, body_length);
        put_zeros(s, 2ull * place->half_bytes - length);
    } else {
        place->newest ^= place->round != s->round;
        flush(s);
        put_half(s, head, head_length, body, body_length);
        write_at(s, s->buffer, s->used, place->at + (uint64_t)place->newest * place->half_bytes);
        s->used = 0;
    }
    place->round = s->round;
    s->is_begun = true;
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

int spool_segment_new(struct spool *s, size_t bytes, uint64_t *at)
{
    struct spool_record record = record_head(SPOOL_SAMPLE_SEGMENT, bytes);
    lock(s);
    put(s, &record, sizeof record);
    flush(s);
    *at = s->end;
    s->end += bytes;
    write_at(s, "", 1, s->end - 1); /* what lies between is zeros */
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

int spool_segment_begin(struct spool *s, uint64_t at, uint64_t number)
{
    static const struct spool_record none;
    struct spool_segment_head head = {number};
    lock(s);
    write_at(s, &none, sizeof none, at + sizeof head);
    write_at(s, &head, sizeof head, at);
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

int spool_segment_add(struct spool *s, uint64_t at, uint32_t type, const void *head,
                      size_t head_length, const void *body, size_t body_length)
{
    size_t length = head_length + body_length;
    if (spool_segment_room(length) > BUFFER)
        return -EINVAL;
    struct spool_record record = record_head(type, length);
    record.check = check(check(record.check, head, head_length), body, body_length);
    lock(s);
    flush(s);
    put(s, head, head_length);
    put(s, body, body_length);
    put_zeros(s, (-length & 7) + sizeof record);
    write_at(s, s->buffer, s->used, at + sizeof record);
    s->used = 0;
    write_at(s, &record, sizeof record, at);
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

bool spool_read(struct spool *s, uint64_t at, void *to, size_t length)
{
    char *p = to;
    while (length) {
        ssize_t n = is_there(s) ? pread(s->file.fd, p, length, (off_t)at) : -1;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        at += (size_t)n;
        length -= (size_t)n;
    }
    return true;
}

int spool_commit(struct spool *s)
{
    lock(s);
    flush(s);
    if (s->is_begun) {
        write_at(s, &s->round, sizeof s->round, offsetof(struct spool_header, committed));
        s->round++;
        s->is_begun = false;
    }
    int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

void spool_close(struct spool *s)
{
    if (!s)
        return;
    spool_abandon(s);
    map_memory_free(s->posted.data, s->posted.bytes);
    map_memory_free(s->taken.data, s->taken.bytes);
    map_memory_free(s, sizeof *s);
}

bool spool_waits(const struct spool *s)
{
    uint64_t since = atomic_load_explicit(&s->writes_since_ns, memory_order_relaxed);
    return since && clock_now_ns() - since > HANGS_NS;
}

void spool_abandon(struct spool *s)
{
    own_fd_close(&s->file);
}
