/* Sources: elfutils' libdwfl.h.  Files with debug information are not sought: unwinding needs .eh_frame alone. */
#include "remote.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct remote_unwind {
    Dwfl *dwfl;
    Dwfl_Callbacks callbacks;
    char root[sizeof "/proc/2147483647/root"];
};

struct visit {
    struct remote_unwind *u;
    bool (*each)(const struct native_frame *frame, void *argument);
    void *argument;
    bool ended;
};

static int find_no_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                              const char *file, const char *link, GElf_Word crc, char **found)
{
    (void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc;
    (void)found;
    return -1;
}

/* Its own file of that name: in a container this one may have another, or none. */
static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                    char **found, Elf **elf)
{
    const struct remote_unwind *u = *data;
    char path[PATH_MAX];
    if (u && name[0] == '/' && snprintf(path, sizeof path, "%s%s", u->root, name) < PATH_MAX) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            *found = strdup(path);
            return file;
        }
    }
    return dwfl_linux_proc_find_elf(module, data, name, base, found, elf);
}

static int give_root(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                     void *argument)
{
    (void)module, (void)name, (void)base;
    *data = argument;
    return DWARF_CB_OK;
}

struct remote_unwind *remote_unwind_new(pid_t pid, const char **error)
{
    struct remote_unwind *u = calloc(1, sizeof *u);
    if (!u)
        return *error = "no memory", NULL;
    u->callbacks = (Dwfl_Callbacks){.find_elf = find_elf, .find_debuginfo = find_no_debug_file};
    snprintf(u->root, sizeof u->root, "/proc/%d/root", pid);
    u->dwfl = dwfl_begin(&u->callbacks);
    if (u->dwfl && dwfl_linux_proc_report(u->dwfl, pid) == 0 &&
        dwfl_report_end(u->dwfl, NULL, NULL) == 0 &&
        dwfl_getmodules(u->dwfl, give_root, u, 0) == 0 &&
        dwfl_linux_proc_attach(u->dwfl, pid, true) == 0)
        return u;
    *error = dwfl_errmsg(-1);
    remote_unwind_free(u);
    return NULL;
}

void remote_unwind_free(struct remote_unwind *u)
{
    if (u->dwfl)
        dwfl_end(u->dwfl);
    free(u);
}

static int visit_frame(Dwfl_Frame *state, void *argument)
{
    struct visit *v = argument;
    struct native_frame frame = {0};
    Dwarf_Addr pc, bias, sp = 0;
    if (!dwfl_frame_pc(state, &pc, &frame.is_exact))
        return DWARF_CB_ABORT;
#ifdef HAS_FRAME_REG
    if (dwfl_frame_reg(state, 7, &sp) != 0)
        sp = 0;
#endif
    frame.pc = pc;
    frame.sp = sp;
    Dwarf_Addr inside = frame.is_exact ? pc : pc - 1;
    Dwfl_Module *module = dwfl_addrmodule(v->u->dwfl, inside);
    if (module) {
        const char *file = NULL,
                   *name = dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, &file, NULL);
        frame.address = dwfl_module_getelf(module, &bias) ? inside - bias : 0;
        dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, &file, NULL);
        frame.path = file ? file : name;
    }
    if (v->each(&frame, v->argument))
        return DWARF_CB_OK;
    v->ended = true;
    return DWARF_CB_ABORT;
}

const char *remote_unwind_thread(struct remote_unwind *u, pid_t tid,
                                 bool (*each)(const struct native_frame *frame, void *argument),
                                 void *argument)
{
    struct visit v = {.u = u, .each = each, .argument = argument};
    int r = dwfl_getthread_frames(u->dwfl, tid, visit_frame, &v);
    return r == 0 || v.ended ? NULL : dwfl_errmsg(-1);
}
