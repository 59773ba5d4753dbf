#include "kernel_ring.h"

#include <linux/perf_event.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORD_MAX 4096       /* longer ones are skipped: kernel.perf_event_max_stack is 127 */
#define CHAIN_MARK (-4095ull) /* from here on: PERF_CONTEXT_KERNEL and the like */

void kernel_ring_map(struct kernel_ring *r, int fd, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    r->bytes = page + size;
    r->pages = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (r->pages == MAP_FAILED)
        r->pages = NULL;
}

void kernel_ring_unmap(struct kernel_ring *r)
{
    if (r->pages)
        munmap(r->pages, r->bytes);
    *r = (struct kernel_ring){0};
}

struct
    sample_body { /* PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN */
    struct perf_event_header head;
    uint64_t at;
    uint32_t pid, tid;
    uint64_t time_ns;
    uint64_t n;
    uint64_t chain[];
};

struct lost_body {
    struct perf_event_header head;
    uint64_t id, lost;
};

/* `n` bytes from position `at` on, around the ring's end. */
static void copy(void *to, const unsigned char *data, uint64_t size, uint64_t at, size_t n)
{
    size_t from = at % size, first = n < size - from ? n : size - from;
    memcpy(to, data + from, first);
    memcpy((unsigned char *)to + first, data, n - first);
}

static size_t without_marks(uint64_t *chain, uint64_t n, uint64_t max)
{
    size_t kept = 0;
    for (uint64_t i = 0; i < n && i < max; i++)
        if (chain[i] < CHAIN_MARK)
            chain[kept++] = chain[i];
    return kept;
}

uint64_t kernel_ring_read(struct kernel_ring *r, kernel_ring_take take, void *arg)
{
    struct perf_event_mmap_page *page = r->pages;
    if (!page)
        return 0;
    const unsigned char *data = (const unsigned char *)r->pages + page->data_offset;
    uint64_t size = page->data_size, at = page->data_tail, lost = 0;
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    union {
        struct perf_event_header head;
        struct sample_body sample;
        struct lost_body lost;
        uint64_t words[RECORD_MAX / sizeof(uint64_t)];
    } record;
    while (at < head) {
        copy(&record.head, data, size, at, sizeof record.head);
        size_t bytes = record.head.size;
        if (bytes < sizeof record.head) /* never: it would not end */
            break;
        if (bytes <= sizeof record) {
            copy(&record, data, size, at, bytes);
            size_t max = (bytes - sizeof record.head) / sizeof(uint64_t);
            if (record.head.type == PERF_RECORD_SAMPLE && max >= 4)
                take(arg, (pid_t)record.sample.tid, record.sample.time_ns, record.sample.at,
                     record.sample.chain,
                     without_marks(record.sample.chain, record.sample.n, max - 4));
            else if (record.head.type == PERF_RECORD_LOST)
                lost += record.lost.lost;
        }
        lost += bytes > sizeof record;
        at += bytes;
    }
    __atomic_store_n(&page->data_tail, at, __ATOMIC_RELEASE);
    return lost;
}
