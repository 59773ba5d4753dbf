/* library.h - libtorch_cpu.so, by the names of its symbols.
 *
 * Its headers are not used: a program may have any version.  What is not exported (where a RecordFunction object has what, where
 * a thread's counter is) is found and proven at run time, by struct_offsets.h.
 *
 * Sources: ATen/record_function.h, ATen/SequenceNumber.h of PyTorch 2.2 to 2.15.
 */
#ifndef PYH_TORCH_LIBRARY_H
#define PYH_TORCH_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

/* enum class RecordScope */
#define SCOPE_FUNCTION 0
#define SCOPE_BACKWARD 1
#define SCOPE_USER 7

/* at::RecordFunctionCallback.  It is trivially copyable, so it is passed in memory, as in C; what versions may have at its end
 * is zero. */
struct record_callback {
    void *(*start)(void **context,
                   const void *record); /* returns a unique_ptr: `context` is its place */
    void (*end)(const void *record, void *context);
    double sampling_probability;
    bool scopes[10];
    bool needs_inputs, needs_outputs, needs_ids;
    bool unknown[24];
};

struct torch_library {
    uint64_t (*add_global_callback)(struct record_callback);
    uint64_t (*add_thread_callback)(struct record_callback);
    void (*remove_callback)(uint64_t);
    const char *(*name)(const void *record);
    uint64_t (*thread_id)(void);   /* of the calling thread, as records have it */
    uint64_t (*next_number)(void); /* that the calling thread's next autograd node gets */
    unsigned long tls_module;      /* for __tls_get_addr */
    uint64_t tls_bytes;
};

/* The one that is loaded from `path`.  NULL, or what is missing. */
const char *torch_library_find(struct torch_library *library, const char *path);

/* Its thread-local memory, of the calling thread. */
const uint64_t *torch_library_tls(const struct torch_library *library, uint64_t offset);

#endif
