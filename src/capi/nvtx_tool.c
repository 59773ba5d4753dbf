/* The tool of NVTX (NVIDIA's Tools Extension): ranges that are pushed and popped are regions.
 *
 * Libraries have copies of NVTX inside (PyTorch for CUDA, RAPIDS, the package nvtx).  Each copy loads the library that the
 * environment variable NVTX_INJECTION64_PATH names, at its first use, and has it fill in the functions that it calls.
 *
 * Source: nvtx3, nvtxDetail/nvtxTypes.h and nvtxInit.h (how a tool is found), nvToolsExt.h (nvtxEventAttributes_t).
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "exports.h"
#include "listener.h"

enum { CALLBACKS = 1 };             /* NvtxExportTableID */
enum { CORE = 1, CORE2 = 5 };       /* NvtxCallbackModule: functions without and with a domain */
enum { ASCII = 1, REGISTERED = 3 }; /* nvtxMessageType_t */
enum { NOT_TRACKED = -2 }; /* NVTX_NO_PUSH_POP_TRACKING: what they return without a tool, too */

typedef void function(void);

struct callbacks {
    size_t size;
    int (*table)(int module, function ***functions, unsigned *size);
};

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

VISIBLE int InitializeInjectionNvtx2(const struct callbacks *(*export_table)(uint32_t));

/* PyTorch's emit_nvtx numbers each operator that it names: "aten::linear, seq = 3, op_id = 12, sizes = [[8, 8]]". */
static const pyhybrid_region *region_of(const char *message)
{
    const char *end = message ? strstr(message, ", seq = ") : NULL;
    if (message && !end)
        end = strstr(message, ", op_id = ");
    char name[256];
    if (!end || (size_t)(end - message) >= sizeof name)
        return pyhybrid_region_named(message ? message : "[unnamed range]");
    memcpy(name, message, (size_t)(end - message));
    name[end - message] = 0;
    return pyhybrid_region_named(name);
}

static int push(const char *message)
{
    pyhybrid_region_push(region_of(message));
    return NOT_TRACKED;
}

static int push_with(const struct attributes *a)
{
    if (a->message_type == REGISTERED && pyhybrid_region_is(a->message)) {
        pyhybrid_region_push(a->message);
        return NOT_TRACKED;
    }
    return push(a->message_type == ASCII ? a->message : NULL);
}

static int pop(void)
{
    pyhybrid_region_pop(NULL);
    return NOT_TRACKED;
}

/* Domains are one: nothing is distinguished by them.  (NULL would be "nobody listens" to the package nvtx.) */
static const void *create_domain(const char *name)
{
    static const char all;
    (void)name;
    return &all;
}

static const void *register_string(const void *domain, const char *text)
{
    (void)domain;
    return region_of(text);
}

static int push_in(const void *domain, const struct attributes *a)
{
    (void)domain;
    return push_with(a);
}

static int pop_in(const void *domain)
{
    (void)domain;
    return pop();
}

/* Of each copy once, in a lock of its.  Returns whether the tool is to stay. */
int InitializeInjectionNvtx2(const struct callbacks *(*export_table)(uint32_t))
{
    const struct {
        int module;
        unsigned number; /* NvtxCallbackIdCore, NvtxCallbackIdCore2 */
        function *function;
    } ours[] = {{CORE, 8, (function *)push_with},      {CORE, 9, (function *)push},
                {CORE, 11, (function *)pop},           {CORE2, 4, (function *)push_in},
                {CORE2, 5, (function *)pop_in},        {CORE2, 10, (function *)register_string},
                {CORE2, 12, (function *)create_domain}};
    const struct callbacks *callbacks = export_table(CALLBACKS);
    for (size_t i = 0; callbacks && i < sizeof ours / sizeof *ours; i++) {
        function **functions;
        unsigned size;
        if (callbacks->table(ours[i].module, &functions, &size) && ours[i].number < size)
            *(function **)functions[ours[i].number] = ours[i].function;
    }
    return callbacks != NULL;
}
