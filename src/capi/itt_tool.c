/* The collector of ITT (Intel's Instrumentation and Tracing Technology): tasks are regions.
 *
 * Libraries have ITT's static part inside (PyTorch, oneDNN, OpenVINO, TBB), which loads the library that the environment
 * variable INTEL_LIBITTNOTIFY64 names, at the first use, and has it fill in the pointers of the functions that it calls.
 *
 * Source: ittapi, ittnotify.h, ittnotify_config.h (___itt_global) and ittnotify_static.c (__itt_init_ittlib).
 */
#include <pthread.h>
#include <string.h>

#include "exports.h"
#include "listener.h"

/* ittnotify.h: they are the library's, which reads `flags` itself. */
struct domain {
    volatile int flags; /* 0: nothing of it is reported */
    const char *name;
    const void *wide_name;
    int extra1;
    void *extra2;
    struct domain *next;
};

struct string {
    const char *text;
    const void *wide_text;
    int extra1;
    void *extra2; /* the collector's: the region */
    struct string *next;
};

struct id {
    unsigned long long d1, d2, d3;
};

struct function {
    const char *name; /* NULL: the last one */
    void **pointer;
    void *first, *none;
    int group;
};

/* Its first part, the same in all versions. */
struct copy {
    unsigned char magic[8];
    unsigned long version[3];
    volatile long is_initialized, has_mutex, count;
    pthread_mutex_t mutex;
    void *library, *on_error;
    const char **path;
    struct function *functions;
};

VISIBLE void __itt_api_init(struct copy *copy, unsigned groups);

/* All are one: nothing is distinguished by them. */
static struct domain *create_domain(const char *name)
{
    static struct domain all = {.flags = 1, .name = "pyhybrid"};
    (void)name;
    return &all;
}

/* Made for each text that is asked for, and never freed; callers keep them, or make them anew for each task. */
static struct string *create_string(const char *text)
{
    static struct string strings[PYHYBRID_REGIONS];
    const pyhybrid_region *region = pyhybrid_region_named(text);
    if (!region)
        return NULL;
    struct string *s = &strings[pyhybrid_region_index(region)];
    s->text = region->name;
    s->extra2 = (void *)region; /* whoever does it writes the same */
    return s;
}

static void begin_task(const struct domain *domain, struct id task, struct id parent,
                       struct string *name)
{
    (void)domain;
    (void)task;
    (void)parent;
    const void *region = name ? name->extra2 : NULL;
    if (name && !pyhybrid_region_is(region)) /* made before we came */
        name->extra2 = (void *)(region = pyhybrid_region_named(name->text));
    pyhybrid_region_push(region ? region : pyhybrid_region_named("[unnamed task]"));
}

static void end_task(const struct domain *domain)
{
    (void)domain;
    pyhybrid_region_pop(NULL);
}

/* Of each copy of the static part once, in a lock of its. */
void __itt_api_init(struct copy *copy, unsigned groups)
{
    static const unsigned char magic[8] = {0xed, 0xab, 0xab, 0xec, 0x0d, 0xee, 0xda, 0x30};
    const struct {
        const char *name;
        void *function;
    } ours[] = {{"__itt_domain_create", (void *)create_domain},
                {"__itt_string_handle_create", (void *)create_string},
                {"__itt_task_begin", (void *)begin_task},
                {"__itt_task_end", (void *)end_task}};
    (void)groups;
    if (memcmp(copy->magic, magic, sizeof magic))
        return;
    for (struct function *f = copy->functions; f && f->name; f++)
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            if (!strcmp(f->name, ours[i].name))
                *f->pointer = ours[i].function;
}
