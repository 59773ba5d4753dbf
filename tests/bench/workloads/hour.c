/* An hour of one thread at 10 kHz, as the drain thread sees it: 36 million samples of 1,000 stacks of 40
 * frames go through a ring into the spool argv[1], whose counters are written each second.  Prints, as JSON,
 * the resident memory in KB after each simulated minute.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drain.h"
#include "frame.h"
#include "records.h"

#define HZ 10000
#define SECONDS 3600
#define STACKS 1000
#define FRAMES 40

static uint64_t stacks[STACKS][FRAMES]; /* innermost first; the outer half is shared by many */

/* There are no code objects here. */
size_t code_record_fill(struct code_record *r, uint64_t code, memread_way *read)
{
    (void)r;
    (void)code;
    (void)read;
    return 0;
}

static void make_stacks(void)
{
    uint64_t code = (uint64_t)&qsort; /* some way into libc: any addresses of a library */
    for (size_t i = 0; i < STACKS; i++)
        for (size_t j = 0; j < FRAMES; j++) {
            size_t kin = j < FRAMES / 2 ? i : i / 50;
            stacks[i][j] = frame_native(code + 8 * ((kin * 37 + j * 101) % 8000));
        }
}

static long resident_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Rss: %ld", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb;
}

static void put_sample(struct thread *t, uint64_t time_ns)
{
    static uint64_t random = 1;
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t *words = stacks[(random >> 33) % STACKS];
    size_t bytes = sizeof(struct sample_record) + FRAMES * sizeof *words;
    struct sample_record *r = ring_reserve(&t->ring, bytes);
    if (!r)
        abort();
    struct ring_record head = r->head;
    *r = (struct sample_record){
        .head = head, .time_ns = time_ns, .weight = 1 + !(random >> 60), .n_words = FRAMES};
    memcpy(r->words, words, FRAMES * sizeof *words);
    ring_commit(&t->ring, r, bytes, RING_SAMPLE);
}

int main(int n, char **arguments)
{
    static struct registry registry;
    static const struct thread_limits limits = {.max_frames = 2048, .ring_bytes = 4 << 20};
    struct spool *spool;
    int file = n > 1 ? open(arguments[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (file < 0 || spool_open(&spool, file, 100) || registry_init(&registry))
        return 1;
    struct drain *drain = drain_new(spool, 2000000);
    struct thread *thread = registry_add(&registry, getpid(), 1, &limits);
    if (!drain || !thread || drain_add_thread(thread, 1))
        return 1;
    make_stacks();
    for (uint64_t i = 0; i < (uint64_t)SECONDS * HZ; i++) {
        put_sample(thread, i * (1000000000 / HZ));
        if ((i + 1) % (HZ / 100))
            continue;
        drain_begin(drain);
        drain_thread(drain, thread, false);
        drain_end(drain);
        if ((i + 1) % HZ == 0)
            drain_snapshot(drain, thread, i * (1000000000 / HZ), 0);
        if ((i + 1) % (60 * HZ) == 0)
            printf("%s%ld", i < 60 * HZ ? "[" : ", ", resident_kb());
    }
    puts("]");
    return spool_flush(spool);
}
