#include "current_frame.h"

#include <link.h>

int64_t current_state_offset;

/* The interpreter's thread-local block has the pointer once, and lies below the thread pointer if it
 * is part of the static block, which is the same in all threads. */
static int find_in_block(struct dl_phdr_info *info, size_t size, void *data)
{
    uint64_t state = (uint64_t)current_state_by_call(), self = arch_thread_pointer(), found = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && info->dlpi_tls_data; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        for (uint64_t at = 0; p->p_type == PT_TLS && at + 8 <= p->p_memsz; at += 8) {
            uint64_t address = (uint64_t)info->dlpi_tls_data + at;
            if (*(const uint64_t *)address != state)
                continue;
            found++;
            *(int64_t *)data = (int64_t)(address - self);
        }
    }
    if (found != 1 || *(int64_t *)data >= 0 || *(int64_t *)data < -65536)
        *(int64_t *)data = 0;
    return found != 0;
}

void current_frame_init(void)
{
    current_state_offset = 0;
    dl_iterate_phdr(find_in_block, &current_state_offset);
}

void current_frame_check(void)
{
    if (current_state_offset && current_state_at(current_state_offset) != current_state_by_call())
        current_state_offset = 0;
}
