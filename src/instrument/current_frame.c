#include "current_frame.h"

#include "loader_lock.h"

int64_t current_state_offset;

#define BLOCKS_MAX 512
#define STATIC_MAX 65536 /* below the thread pointer */

struct tls_blocks {
    struct {
        uint64_t start, end;
    } block[BLOCKS_MAX];
    uint32_t n;
};

static int add_block(struct dl_phdr_info *info, size_t size, void *data)
{
    struct tls_blocks *blocks = data;
    uint64_t start = (uint64_t)info->dlpi_tls_data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && start && blocks->n < BLOCKS_MAX; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_TLS)
            continue;
        blocks->block[blocks->n].start = start;
        blocks->block[blocks->n++].end = start + p->p_memsz;
    }
    return 0;
}

/* The interpreter's thread-local block has the pointer once, and lies below the thread pointer if it
 * is part of the static block, which is the same in all threads. */
static int64_t offset_of(uint64_t state, const struct tls_blocks *blocks)
{
    uint64_t self = arch_thread_pointer();
    for (uint32_t i = 0; i < blocks->n; i++) {
        uint64_t found = 0, n_found = 0;
        for (uint64_t at = blocks->block[i].start; at + 8 <= blocks->block[i].end; at += 8)
            if (*(const uint64_t *)at == state) {
                found = at;
                n_found++;
            }
        if (n_found)
            return n_found == 1 && found < self && self - found <= STATIC_MAX
                       ? (int64_t)(found - self)
                       : 0;
    }
    return 0;
}

void current_frame_init(void)
{
    struct tls_blocks blocks = {.n = 0};
    PyThreadState *state = PyEval_SaveThread();
    loader_iterate(add_block, &blocks);
    PyEval_RestoreThread(state); /* the pointer is there again */
    current_state_offset = offset_of((uint64_t)state, &blocks);
}

void current_frame_check(void)
{
    if (current_state_offset && current_state_at(current_state_offset) != current_state_by_call())
        current_state_offset = 0;
}
