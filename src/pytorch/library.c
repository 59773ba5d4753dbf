/* library.c - libtorch_cpu.so, by the names of its symbols.
 *
 * Its headers are not used: a program may have any version.  What is not exported (where a RecordFunction object has what, where
 * a thread's counter is) is found and proven at run time, by struct_offsets.c.
 *
 * Sources: ATen/record_function.h, ATen/SequenceNumber.h of PyTorch 2.2 to 2.15.
 */
#include "pytorch.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

struct tls_index {
    unsigned long module, offset;
};
extern void *__tls_get_addr(struct tls_index *);

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    {"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
     offsetof(struct torch_library, add_global_callback)},
    {"_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE",
     offsetof(struct torch_library, add_thread_callback)},
    {"_ZN2at14removeCallbackEm", offsetof(struct torch_library, remove_callback)},
    {"_ZNK2at14RecordFunction4nameEv", offsetof(struct torch_library, name)},
    {"_ZN2at14RecordFunction15currentThreadIdEv", offsetof(struct torch_library, thread_id)},
    {"_ZN2at15sequence_number4peekEv", offsetof(struct torch_library, next_number)},
};

struct search {
    struct torch_library *library;
    uint64_t address;
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct search *s = arg;
    uint64_t tls_bytes = 0;
    bool is_it = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_TLS)
            tls_bytes = p->p_memsz;
        if (p->p_type == PT_LOAD && s->address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            is_it = true;
    }
    if (!is_it)
        return 0;
    s->library->tls_module = info->dlpi_tls_modid;
    s->library->tls_bytes = tls_bytes;
    return 1;
}

const char *torch_library_find(struct torch_library *library, const char *path)
{
    void *handle =
        dlopen(path, RTLD_LAZY | RTLD_NOLOAD); /* for good: it is never unloaded from now on */
    if (!handle)
        return "its library is not loaded";
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            return symbols[i].name;
        *(void **)((char *)library + symbols[i].at) = address;
    }
    struct search s = {library, (uint64_t)library->next_number};
    dl_iterate_phdr(look, &s);
    return library->tls_module && library->tls_bytes ? NULL : "its thread-local memory";
}

const uint64_t *torch_library_tls(const struct torch_library *library, uint64_t offset)
{
    struct tls_index index = {library->tls_module, offset};
    return __tls_get_addr(&index);
}
