/* records.h - what the program's threads hand to the drain thread: samples, through a ring, and code
 * objects, through a ring or the exact half's queue.
 *
 * Context: async-signal-safe.
 */
#ifndef PYH_RECORDS_H
#define PYH_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "memread.h"
#include "ring.h"

struct exact_thread;

/* A function that runs further out than a sample's words, or a region: one place of the shadow stack. */
struct caller_note {
    uint64_t node; /* of the exact tree */
    /* As a raw Python word, with the code object's id (codes.h) in place of its number.  0: not known, or there is no
     * instruction. */
    uint64_t at;
};

enum ring_type { RING_SAMPLE = 1, RING_CODE, RING_HOLD };

/* A sample of a young thread's (sampler/clocks/newborn.h): of one of whose end it will be known what it ran, or not. */
enum tick_kind { NO_TICK, TICK_ALONE, TICK_SHARES };

struct sample_record {
    struct ring_record head;
    uint64_t time_ns;
    uint32_t weight; /* sampling periods */
    uint32_t n_words;
    uint32_t cpu;
    uint16_t gil; /* thread_state.h */
    unsigned char waits,
        in_kernel : 1;         /* the signal came out of a system call that had not waited */
    unsigned char is_tick : 2; /* enum tick_kind: its weight is found when it is drained */
    /* The node of an exact tree that is further out than the words; NULL: none. */
    struct exact_thread *base_thread;
    uint64_t base_node;
    /* The places above that node, the outermost first: those before the last `n_notes` are as they were when the
     * thread's last sample was taken.  None: no instruction is known. */
    uint32_t n_places, n_notes;
    uint64_t words[]; /* raw frame words, innermost first; then n_notes of struct caller_note */
};

/* The sample before holds for longer (sampler/clocks/sleep_detection.c). */
struct hold_record {
    struct ring_record head;
    uint64_t time_ns; /* until then */
    uint32_t weight;
    uint32_t pad;
};

#define CODE_TEXT_MAX 4096        /* bytes of a qualified name or a file name */
#define CODE_LINE_TABLE_MAX 16384 /* longer ones are left out */
#define CODE_RECORD_MAX (sizeof(struct code_record) + 2 * CODE_TEXT_MAX + CODE_LINE_TABLE_MAX)

struct code_record {
    struct ring_record head;
    uint32_t number, function; /* codes.h */
    uint32_t first_line, first_traceable;
    uint32_t qualname_bytes, qualname_kind; /* kind: bytes per character, as CPython stores it */
    uint32_t file_name_bytes, file_name_kind;
    uint32_t line_table_bytes, pad;
    unsigned char text[]; /* qualname, file name, line table */
};

/* Copies what names the code object at `code` into `r` (CODE_RECORD_MAX bytes), but for its numbers.  `read` is
 * guarded, or (it is alive, and the caller has the GIL) not.  Returns the record's bytes; 0: there is no code
 * object. */
size_t code_record_fill(struct code_record *r, uint64_t code, memread_way *read);

#endif
