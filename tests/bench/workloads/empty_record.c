/* A callback of PyTorch's RecordFunction for backward functions that does nothing: what PyTorch itself takes for there being one.
 *
 * Sources: ATen/record_function.h of PyTorch 2.2 to 2.15 (src/pytorch/library.c). */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record_callback {
    void *(*start)(void **context, const void *record);
    void (*end)(const void *record, void *context);
    double sampling_probability;
    bool scopes[10], needs[3], unknown[24];
};

/* `path`: of libtorch_cpu.so, which is loaded.  0, or -1: it has no such function. */
int add_empty_callback(const char *path);

static void *on_start(void **context, const void *record)
{
    (void)record;
    *context = NULL;
    return context;
}

static void on_end(const void *record, void *context)
{
    (void)record;
    (void)context;
}

int add_empty_callback(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *symbol =
        library ? dlsym(library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE") : NULL;
    if (!symbol)
        return -1;
    uint64_t (*add)(struct record_callback) = (uint64_t (*)(struct record_callback))symbol;
    struct record_callback c = {.start = on_start, .end = on_end, .sampling_probability = 1.0};
    c.scopes[1] = true;
    add(c);
    return 0;
}
