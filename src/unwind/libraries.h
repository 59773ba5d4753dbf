/* libraries.h - which loaded object (program, library, vdso) covers an address, and its `.eh_frame_hdr`.
 *
 * The C library knows: _dl_find_object (glibc 2.35) takes no lock.  Older ones answer only under the loader's
 * lock (dl_iterate_phdr), so a table is built outside the handler then, and looked at here.  It lags behind:
 * a library is unknown until the next update, and its build-id shows whether one is still there (without one,
 * the beginning of its unwind table), which is read with a guard and compared.
 *
 * Context: libraries_find is async-signal-safe, on any thread at once; libraries_update is for ordinary threads, one at
 * a time; libraries_use_table is called while no sampler runs.
 */
#ifndef PYH_LIBRARIES_H
#define PYH_LIBRARIES_H

#include <stdbool.h>
#include <stdint.h>

struct library {
    uint64_t start, end;     /* of its mapping */
    const uint8_t *eh_frame; /* .eh_frame_hdr; NULL: it has none */
};

/* Finds the object that covers the address.  Returns false if no known one does. */
bool libraries_find(uint64_t address, struct library *o);

/* Brings the table up to date, if it is used.  Returns whether it has changed. */
bool libraries_update(void);

/* Makes libraries_find use the table whatever the C library can do (`wanted`), or only where it must. */
void libraries_use_table(bool wanted);

/* True where the table is used; then it should be brought up to date often. */
extern bool libraries_by_table;

/* Private to libraries.c and libraries_update.c. */
#define LIBRARIES_MAX 4096
#define LIBRARY_CHECKED 32

struct library_entry {
    struct library object;
    uint64_t check_at; /* these bytes stand there as long as the object does; 0: none are known */
    uint32_t n_check;
    unsigned char check[LIBRARY_CHECKED];
};

/* Two tables, sorted by start: that of the version's last bit is valid, the other one is written to. */
struct library_tables {
    _Atomic uint64_t version;
    struct {
        uint32_t n;
        struct library_entry entry[LIBRARIES_MAX];
    } table[2];
};
extern struct library_tables library_tables;

#endif
