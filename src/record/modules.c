/* modules.c - which library is mapped where, now and before.
 *
 * Each load of a library is a module with a number of its own, so that an address keeps its
 * meaning after dlclose and a new dlopen in the same place.
 *
 * Context: the drain thread.  dl_iterate_phdr holds the loader's lock for a moment; while it does,
 * nothing here allocates, writes or waits.
 */
#include "drain_parts.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "build_id.h"
#include "clock.h"
#include "frame.h"
#include "loader_lock.h"
#include "map.h"
#include "spool.h"

#define SEGMENTS_MAX 16
#define PATH_BYTES 1024
#define BUILD_ID_BYTES 32

enum module_state { ENDED_AND_DROPPED, LIVE, ENDED };

struct module {
    uint64_t base, low, high;
    uint64_t load_ns;
    struct spool_segment segments[SEGMENTS_MAX];
    uint32_t n_segments;
    uint32_t build_id_length;
    unsigned char build_id[BUILD_ID_BYTES];
    char path[PATH_BYTES]; /* "" is the main program */
    enum module_state state;
    bool seen, announced;
};

struct modules {
    unsigned long long adds, subs; /* of the loader, when last looked at */
    uint32_t n;
    struct module module[PYH_MODULE_MAX + 1]; /* [id], from 1 */
    char
        tail[BUILD_ID_BYTES + 8192]; /* of a record being made; not on the stack: see canonical.c */
};

struct modules *modules_new(void)
{
    return map_memory(sizeof(struct modules));
}

void modules_free(struct modules *m)
{
    map_memory_free(m, sizeof *m);
}

static void read_build_id(struct module *m, const void *notes, size_t size)
{
    size_t length;
    const unsigned char *id = build_id_find(notes, size, &length);
    if (id && length <= BUILD_ID_BYTES) {
        m->build_id_length = (uint32_t)length;
        memcpy(m->build_id, id, length);
    }
}

static void describe(struct module *m, const struct dl_phdr_info *info)
{
    m->base = info->dlpi_addr;
    m->low = ~0ull;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + h->p_vaddr;
        if (h->p_type == PT_NOTE && !m->build_id_length)
            read_build_id(m, (const void *)start, h->p_memsz);
        if (h->p_type != PT_LOAD)
            continue;
        if (start < m->low)
            m->low = start;
        if (start + h->p_memsz > m->high)
            m->high = start + h->p_memsz;
        if (m->n_segments < SEGMENTS_MAX)
            m->segments[m->n_segments++] =
                (struct spool_segment){start, h->p_memsz, h->p_offset, h->p_flags};
    }
}

static struct module *find_live(struct modules *m, uint64_t base, const char *path)
{
    for (uint32_t id = 1; id <= m->n; id++) {
        struct module *known = &m->module[id];
        if (known->state == LIVE && known->base == base &&
            !strncmp(known->path, path, PATH_BYTES - 1))
            return known;
    }
    return NULL;
}

static int changed(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct modules *m = arg;
    (void)size;
    enum modules_change change = m->subs != info->dlpi_subs   ? MODULES_WENT
                                 : m->adds != info->dlpi_adds ? MODULES_CAME
                                                              : MODULES_SAME;
    m->adds = info->dlpi_adds;
    m->subs = info->dlpi_subs;
    return 1 + (int)change; /* not 0: the first module is enough */
}

static int collect(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct modules *m = arg;
    (void)size;
    struct module *known = find_live(m, info->dlpi_addr, info->dlpi_name);
    if (!known && m->n < PYH_MODULE_MAX) {
        known = &m->module[++m->n];
        describe(known, info);
        strncpy(known->path, info->dlpi_name, PATH_BYTES - 1);
        known->state = LIVE;
    }
    if (known)
        known->seen = true;
    return 0;
}

/* The path under which the module can be found later. */
static size_t full_path(const struct module *m, char *path, size_t size)
{
    if (m->base && m->base == getauxval(AT_SYSINFO_EHDR))
        return (size_t)(stpcpy(path, "[vdso]") - path);
    const char *name = m->path;
    if (!*name) {
        ssize_t n = readlink("/proc/self/exe", path, size);
        if (n > 0)
            return (size_t)n;
        name = (const char *)getauxval(AT_EXECFN); /* without /proc */
    }
    size_t n = 0;
    if (!name || strlen(name) >= PATH_BYTES)
        return 0;
    if (*name != '/' && getcwd(path, size - PATH_BYTES - 1)) {
        n = strlen(path);
        path[n++] = '/';
    }
    return (size_t)(stpcpy(path + n, name) - path);
}

static void announce(struct modules *all, uint32_t id, struct spool *s)
{
    const struct module *m = &all->module[id];
    char *tail = all->tail;
    struct {
        struct spool_module head;
        struct spool_segment segments[SEGMENTS_MAX];
    } record = {.head = {.id = id,
                         .n_segments = m->n_segments,
                         .base = m->base,
                         .load_ns = m->load_ns,
                         .build_id_length = m->build_id_length}};
    memcpy(record.segments, m->segments, m->n_segments * sizeof *m->segments);
    memcpy(tail, m->build_id, m->build_id_length);
    size_t path = full_path(m, tail + m->build_id_length, sizeof all->tail - BUILD_ID_BYTES);
    record.head.path_length = (uint32_t)path;
    spool_append(s, SPOOL_MODULE, &record, sizeof record.head + m->n_segments * sizeof *m->segments,
                 tail, m->build_id_length + path);
}

enum modules_change modules_update(struct modules *m, struct spool *s)
{
    enum modules_change change = (enum modules_change)(loader_iterate(changed, m) - 1);
    if (change == MODULES_SAME)
        return change;
    for (uint32_t id = 1; id <= m->n; id++)
        m->module[id].seen = false;
    loader_iterate(collect, m);
    uint64_t now = clock_now_ns();
    for (uint32_t id = 1; id <= m->n; id++) {
        struct module *it = &m->module[id];
        if (it->state != LIVE)
            continue;
        if (!it->announced) {
            it->load_ns = now;
            it->announced = true;
            announce(m, id, s);
        }
        if (!it->seen) {
            struct spool_module_end end = {.id = id, .unload_ns = now};
            it->state = ENDED;
            spool_append(s, SPOOL_MODULE_END, &end, sizeof end, NULL, 0);
        }
    }
    return change;
}

void modules_drop_ended(struct modules *m)
{
    for (uint32_t id = 1; id <= m->n; id++)
        if (m->module[id].state == ENDED)
            m->module[id].state = ENDED_AND_DROPPED;
}

uint64_t modules_word(const struct modules *m, uint64_t pc)
{
    uint32_t found = 0;
    for (uint32_t id = 1; id <= m->n; id++) {
        const struct module *it = &m->module[id];
        if (pc < it->low || pc >= it->high)
            continue;
        if (it->state == LIVE)
            return frame_module(id, pc - it->base);
        if (it->state == ENDED)
            found = id;
    }
    return found ? frame_module(found, pc - m->module[found].base) : frame_module(0, pc);
}
