/* cfi_fde.h - the frame description entry (FDE) for an address, parsed in place.  Private to cfi.c.
 *
 * Context: async-signal-safe.  Nothing is read beyond the module's mapping.
 */
#ifndef PYH_CFI_FDE_H
#define PYH_CFI_FDE_H

#include <stdbool.h>
#include <stdint.h>

struct cursor { /* reads never pass `end`: `bad` is set where one wanted to */
    const uint8_t *p, *end;
    bool bad;
};

struct fde {
    uint64_t start, end; /* of the code it describes */
    uint64_t next;       /* where the next FDE begins: before `end` if they overlap */
    struct cursor instructions, cie_instructions;
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_register;
    uint8_t encoding;
    bool augmented; /* an augmentation length stands before the FDE's instructions */
    bool signal_frame;
};

bool fde_find(uint64_t pc, struct fde *f);

uint64_t cursor_u(struct cursor *c, unsigned bytes);
uint64_t cursor_uleb(struct cursor *c);
int64_t cursor_sleb(struct cursor *c);
uint64_t cursor_encoded(struct cursor *c, uint8_t encoding, uint64_t data_base);

#endif
