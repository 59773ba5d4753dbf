/* spool.h - the file `PREFIX.pyhybrid.part` that the profiled process writes.
 *
 * Format (little endian).  The file starts with struct spool_header; then records follow, each a
 * struct spool_record and `length` bytes of payload, padded with zeros to a multiple of 8 (the
 * padding is not counted in `length`).  A process that is killed leaves a torn last record: a
 * reader ignores what does not fit.  Where a record is damaged, the next one is found by its mark
 * and its check.  Readers skip types that they do not know.
 *
 * Records are added at the end and stay as they are, but for those whose type has SPOOL_REPLACED:
 * counters, which are written again and again in their place.  Such a record is two halves of the
 * same length, each a struct spool_half and its content.  All of them are written in rounds: a half
 * of the round that the file's header calls committed is never written to, so of each record the
 * newest half counts whose round is not after that one: the counters of one moment, whenever the
 * process is killed.  A half of round 0 is empty.
 *
 * Where the timeline is bounded, samples are in segments, which are records of fixed size with records inside, up to
 * the first that has no mark.  There a record's head is written last.  When all segments are in use, the oldest one is
 * added to the sums, and once these are committed it begins anew: those below struct spool_merged's number do not
 * count.
 *
 * Times are CLOCK_MONOTONIC nanoseconds.  Weights count sampling periods (meta `period_ns`).
 * Frame words are canonical (frame.h).
 *
 * Context: any thread, by a lock that is held while a record is copied or written; never a signal
 * handler.  Functions return 0 or -errno; after the first failed write the spool stays closed,
 * and every later call returns that error (the program goes on).
 */
#ifndef PYH_SPOOL_H
#define PYH_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOOL_MAGIC "PYHSPOOL"
#define SPOOL_VERSION 11
#define SPOOL_MARK 0x6c6f6f70u /* "pool" */
#define SPOOL_REPLACED 0x80000000u

struct spool_header {
    char magic[8] __attribute__((nonstring));
    uint32_t version;
    uint32_t pid;
    uint64_t committed; /* round */
};

/* Checks are Adler-32 (RFC 1950), as zlib has it. */
struct spool_record {
    uint32_t mark; /* SPOOL_MARK */
    uint32_t
        check; /* of type, length and payload; of a replaced record's or a segment's type and length */
    uint32_t type;   /* enum spool_type; with SPOOL_REPLACED */
    uint32_t length; /* of both halves */
};

struct spool_half {
    uint32_t length; /* of its content */
    uint32_t check;  /* of length, round (as 8 bytes) and content */
    uint64_t round;
};

enum spool_type {
    SPOOL_META = 1,    /* a JSON object in UTF-8; a later one overrides keys of an earlier one */
    SPOOL_MODULE,      /* struct spool_module, segments, build-id, path */
    SPOOL_MODULE_END,  /* struct spool_module_end: the library was unloaded */
    SPOOL_CODE,        /* struct spool_code, qualname, file name, co_linetable */
    SPOOL_THREAD,      /* struct spool_thread: a thread was seen for the first time */
    SPOOL_THREAD_NAME, /* struct spool_thread_name, name in UTF-8; a later one overrides */
    SPOOL_STACKS,      /* struct spool_stacks, uint32_t parent[n], pad to 8, uint64_t word[n] */
    SPOOL_FUNCTIONS,   /* struct spool_function[length / 16] */
    SPOOL_SAMPLES,     /* struct spool_samples, dt[n], stack[n], weights[n_weights], cpus[n_cpus] */
    SPOOL_COUNTERS,    /* struct spool_counters; replaced */
    SPOOL_END,         /* struct spool_end: the profiler was stopped in order */
    SPOOL_EXACT_THREAD, /* struct spool_exact_thread, name in UTF-8: events came from a thread */
    SPOOL_EXACT_NODES, /* struct spool_exact_nodes, uint32_t parent[n], pad to 8, uint64_t word[n] */
    SPOOL_EXACT_COUNTERS, /* struct spool_exact_counters, struct spool_exact_count[n]; replaced */
    SPOOL_CLOCK,          /* struct spool_clock; replaced */
    SPOOL_REGION,         /* struct spool_region, name in UTF-8 */
    SPOOL_EVENTS,         /* struct spool_events, uint64_t event[n] (event_log.h) */
    SPOOL_CALLS, /* struct spool_calls, then each a struct call_turn (kept_calls.h) and what follows it:
                             attributes are fields, each a struct spool_attribute */
    SPOOL_CALL_TIMES, /* struct spool_call_times, uint32_t bucket[320] (kept_calls.h); replaced */
    SPOOL_C_FUNCTION, /* struct spool_c_function, name in UTF-8: as Python calls it */
    SPOOL_FUNCTION_NAME, /* struct spool_function_name, name in UTF-8: by which Python reaches it */
    SPOOL_CODE_FACTS,    /* struct spool_code_facts, texts in UTF-8, each with a zero at its end */
    SPOOL_SAMPLE_SEGMENT, /* struct spool_segment_head, records, zeros: it is filled bit by bit, and used again */
    SPOOL_SUMS,     /* struct spool_sums, struct spool_sum[n]; replaced */
    SPOOL_MERGED,   /* struct spool_merged; replaced */
    SPOOL_WATCHED,  /* struct spool_calls, struct watched_call[] (watched_calls.h) */
    SPOOL_BACKWARD, /* struct spool_backward, struct backward_sum[n] (backward_work.h); replaced */
    SPOOL_BACKWARD_NAME,  /* struct spool_backward_name, name in UTF-8 */
    SPOOL_BACKWARD_TURNS, /* struct backward_turn[] */
    SPOOL_THREAD_HANDLE,  /* struct spool_thread_handle: of one whose events are logged */
    SPOOL_CLOCK_PAIR, /* struct spool_clock_pair: each second, where single events have their times */
    SPOOL_DEVICE_WORK, /* struct spool_device_work, a JSON object in UTF-8, pad to 8, int64_t[] (frameworks/torch_gpu.py) */
    SPOOL_FOLDED, /* struct spool_folded: a thread's row is that of several threads (thread_folds.c); replaced */
    SPOOL_FOLDED_NODES, /* struct spool_folded_nodes, uint32_t[n], pad to 8 */
};

struct spool_segment { /* a PT_LOAD segment */
    uint64_t start;    /* absolute */
    uint64_t size;
    uint64_t file_offset;
    uint64_t flags; /* PF_R | PF_W | PF_X */
};

struct spool_module {
    uint32_t id; /* from 1; a library loaded twice has two ids */
    uint32_t n_segments;
    uint64_t base; /* dlpi_addr: absolute address - base = the ELF file's virtual address */
    uint64_t load_ns;
    uint32_t build_id_length;
    uint32_t path_length; /* "[vdso]" for the kernel's page */
};

struct spool_module_end {
    uint32_t id;
    uint32_t pad;
    uint64_t unload_ns;
};

struct spool_code {
    uint32_t index; /* from 1 */
    uint32_t first_line;
    uint32_t first_traceable;   /* code units; a caller's frame before it is not a real frame */
    uint32_t qualname_length;   /* UTF-8, lone surrogates as they are ("surrogatepass") */
    uint32_t file_name_length;  /* the same */
    uint32_t line_table_length; /* co_linetable; 0 if it was too large to copy */
};

/* The facts of a function that is named (-t), or whose single calls are kept.  Its texts are: qualified name, file
 * name, module (empty: not known), name, arguments, other local variables. */
struct spool_code_facts {
    uint32_t first_line;
    uint32_t stack_size;
    uint32_t n_arguments;
    uint32_t length; /* of it all */
};

struct spool_thread {
    uint32_t index; /* from 1 */
    uint32_t tid;
    uint64_t start_ns;      /* the thread's own start, to clock-tick resolution */
    uint64_t first_seen_ns; /* when sampling of it began */
    char comm[16];
};

/* Its samples may not come in order of time, its counters are sums, and so are those of its nodes: activations of
 * theirs that run are in total_ticks up to the round's clock. */
struct spool_folded {
    uint32_t index; /* of the SPOOL_THREAD, whose tid is no thread's: TIDS_MAX or more */
    uint32_t pad;
    uint64_t n_threads;
};

/* What a folded thread's nodes 1, 2, ... n are in the tree of all: by its own numbers work that is done later for its
 * calls is known (SPOOL_BACKWARD). */
struct spool_folded_nodes {
    uint32_t thread, index; /* as in struct maker; of the tree's SPOOL_EXACT_THREAD */
    uint32_t n, pad;
};

struct spool_thread_name {
    uint32_t index;
    uint32_t source; /* enum thread_name_source */
};

enum thread_name_source { NAME_COMM, NAME_THREADING };

struct spool_stacks { /* stack ids count from 1; 0 is the root; parents come first */
    uint32_t first_id;
    uint32_t n;
};

struct spool_function { /* for a native word: its function's start, as in the FDE */
    uint64_t word;
    uint64_t start; /* in the word's own terms (module, offset); 0: no unwind information */
};

struct spool_samples {
    uint32_t thread;
    uint32_t n;
    uint32_t n_weights;
    uint32_t n_cpus;
    uint64_t first_ns;
    /* uint32_t dt_ns[n]    to the sample before; the first is 0
     * uint32_t stack[n]    its id, and above SPOOL_STACK_BITS what the thread was about
     * struct spool_weight weights[n_weights]    samples whose weight is not 1
     * struct spool_cpu cpus[n_cpus]             the first sample, and those on another CPU */
};

struct spool_segment_head {
    uint64_t number; /* from 1, in order of time; 0: it is not in use */
};

struct spool_sums {
    uint32_t n;
    uint32_t pad;
};

struct spool_sum { /* the samples of a thread at one place, as in spool_samples' stack[] */
    uint32_t thread;
    uint32_t place;
    uint64_t n, weight;
    uint64_t first_ns, last_ns;
};

struct spool_merged {
    uint64_t before; /* segments with lower numbers are in the sums */
};

#define SPOOL_STACK_BITS 28
#define SPOOL_STACK_MAX ((1u << SPOOL_STACK_BITS) - 1)
/* 2 bits: 0 neither, 1 it held the GIL, 2 it waited for it */
#define SPOOL_GIL_SHIFT SPOOL_STACK_BITS
#define SPOOL_WAITS (1u << 30) /* it was off the CPU (by wall-clock time only) */

struct spool_cpu {
    uint32_t index;
    uint32_t cpu;
};

struct spool_weight {
    uint32_t index;
    uint32_t weight;
};

enum loss { /* why a signal was not recorded; names stand in pyhybrid/base/pseudo_frames.py */
            LOSS_RING_FULL,
            LOSS_TOO_SLOW, /* the samples before took so long that the thread was owed time of its own */
            N_LOSSES
};

#define SPOOL_LOSSES 8     /* kinds that there is room for */
#define SPOOL_HISTOGRAM 64 /* bucket 4p+q: from 64 ns * 2^p * (1 + q/4) up; the last one is open */

struct spool_counters {
    uint32_t thread;
    uint32_t n_losses;
    uint64_t signals; /* == recorded + sum of lost[]; with repeated samples (sleep_detection.c) */
    uint64_t recorded;
    uint64_t recorded_weight;
    uint64_t missed_weight; /* time that no signal stood for (before the thread was seen, signals
                               blocked for ever; by wall-clock time: just after a long wait), in periods */
    uint64_t cpu_ns;        /* the kernel's CPU time for the thread, as last read */
    uint64_t lost[SPOOL_LOSSES];
    uint64_t lost_weight[SPOOL_LOSSES];
    uint32_t handler_ns[SPOOL_HISTOGRAM];
};

struct spool_end {
    uint64_t time_ns;
    uint64_t process_cpu_ns; /* of the process, while profiling ran; 0: not known */
    uint32_t n_forked;       /* children that fork() made */
    uint32_t n_spawned;      /* that Python started otherwise: src/python/spawns.c */
    uint64_t n_kernel_lost;  /* ticks of which it is not known where in the kernel they came */
    uint32_t n_mute;         /* clocks that could not record that */
    uint32_t pad;
    /* CPU time of the process, without ours, that no sample stands for, nor a lost or missed one; below 0: samples
     * stand for more, by chance.  0: not known. */
    int64_t unaccounted_ns;
};

/* The exact half.  Its records of threads have numbers of their own; nodes count from 1 in each thread, 0 is the root,
 * parents come first.  A Python word has offset 0, that of a C call is its function's start, and so is a native one
 * where C code recurses.  A line's node is a leaf below its function's: its calls are LINE events, its ticks the
 * line's. */
struct spool_exact_thread {
    uint32_t index;  /* from 1 */
    uint32_t thread; /* its SPOOL_THREAD, which comes before, and is no other's */
};

struct spool_exact_nodes {
    uint32_t thread;
    uint32_t first_id;
    uint32_t n;
    uint32_t pad;
};

struct spool_exact_counters { /* of nodes first_id, first_id + 1... */
    uint32_t thread;
    uint32_t first_id;
    uint32_t n;
    uint32_t pad;
};

struct spool_exact_count {
    uint32_t raised; /* ends by an exception */
    uint32_t seeded; /* activations that had begun before profiling did: timed from then on */
    uint64_t calls, resumes;
    uint64_t total_ticks; /* of activations that ended */
    uint64_t
        since_ticks; /* of one that runs: its begin; 0: none runs.  It ran up to spool_clock's last reading */
};

struct spool_clock {                /* ticks of the exact half's clock, and CLOCK_MONOTONIC */
    uint64_t first_ticks, first_ns; /* when profiling began */
    uint64_t ticks, time_ns;        /* when this round began */
};

/* A name that frame words refer to; an object's: its path, a NUL, its class. */
struct spool_region {
    uint32_t number;
    uint32_t pad;
};

struct spool_backward { /* work that was done later for nodes of threads */
    uint32_t n;
    uint32_t pad;
};

struct spool_backward_name { /* of such work */
    uint32_t number;
    uint32_t pad;
};

struct spool_thread_handle {
    uint32_t index;  /* of a SPOOL_EXACT_THREAD */
    uint32_t handle; /* exact_thread's */
};

struct spool_clock_pair { /* ticks as in spool_clock, and CLOCK_REALTIME */
    uint64_t ticks, realtime_ns;
};

struct spool_device_work { /* of a window of time */
    uint32_t text_length;
    uint32_t pad;
};

struct spool_events { /* begins and ends in order of time */
    uint32_t thread;
    uint32_t n;
    uint64_t first_ticks, last_ticks; /* before the first event; of the last one */
    uint64_t n_dropped; /* events that are not in the file, which has enough of them */
};

struct spool_calls { /* turns of calls that are kept, in order of their ends */
    uint32_t thread;
    uint32_t pad;
};

enum spool_attribute_kind {
    ATTRIBUTE_NONE,
    ATTRIBUTE_FALSE,
    ATTRIBUTE_TRUE,
    ATTRIBUTE_INT,   /* decimal digits */
    ATTRIBUTE_FLOAT, /* as repr() writes it, also nan and inf */
    ATTRIBUTE_TEXT,
    ATTRIBUTE_OTHER, /* the name of its type */
};

struct spool_attribute { /* then the key and the value, in UTF-8; unaligned */
    uint16_t kind;
    uint16_t key_length;
    uint32_t value_length;
};

struct spool_call_times { /* durations of a node's calls, in ticks */
    uint32_t thread;
    uint32_t node;
    uint64_t n, sum, max;
    uint64_t n_lost; /* calls of the thread for which there was no memory */
};

struct spool_c_function { /* one that Python called; it may have several names */
    uint64_t address;     /* absolute */
};

struct spool_function_name { /* of a C function; it may have several (instrument/method_names.c) */
    uint64_t start;          /* as spool_function's, with its module */
};

struct spool;

/* Writes to a duplicate of `fd`, an empty file without O_APPEND, whose number is `fd_floor` or higher, out of
 * the program's way. */
int spool_open(struct spool **out, int fd, int fd_floor);

/* Adds a record whose payload is `head` and then `body`.  It is buffered until spool_flush. */
int spool_append(struct spool *s, uint32_t type, const void *head, size_t head_length,
                 const void *body, size_t body_length);
int spool_flush(struct spool *s);

/* Does the same, but waits for no write of another thread's, which takes as long as the disk likes: the record is kept
 * in memory, and comes before all records that are added later.  Without memory for it this is spool_append. */
int spool_post(struct spool *s, uint32_t type, const void *head, size_t head_length,
               const void *body, size_t body_length);

/* A replaced record, as its writer knows it: zeros before it is written first. */
struct spool_place {
    uint64_t at; /* of the first half in the file */
    uint32_t half_bytes;
    uint32_t newest; /* half: 0 or 1 */
    uint64_t round;  /* the newest's */
};

/* Writes the record at `place`, whose content is never longer than `capacity`, anew.  It counts from
 * spool_commit on, which flushes and ends the round. */
int spool_replace(struct spool *s, struct spool_place *place, uint32_t type, size_t capacity,
                  const void *head, size_t head_length, const void *body, size_t body_length);
int spool_commit(struct spool *s);
/* Adds a segment of `bytes`, a multiple of 8, that is not in use; `*at`: where its content begins. */
int spool_segment_new(struct spool *s, size_t bytes, uint64_t *at);

/* Makes it segment `number`, and empty. */
int spool_segment_begin(struct spool *s, uint64_t at, uint64_t number);

/* Writes a record at `at` in a segment, after what was appended before.  It takes spool_segment_room(length of head and
 * body) bytes, the last of them zeros, where the next one belongs. */
int spool_segment_add(struct spool *s, uint64_t at, uint32_t type, const void *head,
                      size_t head_length, const void *body, size_t body_length);

static inline size_t spool_segment_room(size_t length)
{
    return sizeof(struct spool_record) + ((length + 7) & ~7ull) + sizeof(struct spool_record);
}

/* Reads what the file has.  Returns false if it cannot be read. */
bool spool_read(struct spool *s, uint64_t at, void *to, size_t length);

void spool_close(struct spool *s); /* without a flush */

/* Has a write not returned for a while: does the disk not answer?  It waits for nobody, and may be called in a forked
 * child. */
bool spool_waits(const struct spool *s);

/* Closes the descriptor and nothing else: in a forked child the file is the parent's. */
void spool_abandon(struct spool *s);

#endif
