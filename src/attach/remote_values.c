/* Sources: Include/cpython/longintrepr.h, unicodeobject.h, tupleobject.h, listobject.h, dictobject.h, setobject.h,
 * object.h, Objects/codeobject.c (co_localspluskinds), of CPython 3.12 to 3.15. */
#include "remote.h"

#include "pyframe_version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 100

/* What a static type is called tells what its objects are. */
static bool type_name(pid_t pid, uint64_t at, char name[NAME_BYTES], bool *is_static)
{
    PyObject head;
    PyTypeObject type;
    if (!remote_read(pid, at, &head, sizeof head) ||
        !remote_read(pid, (uint64_t)head.ob_type, &type, sizeof type))
        return false;
    *is_static = !(type.tp_flags & Py_TPFLAGS_HEAPTYPE);
    memset(name, 0, NAME_BYTES);
    /* It may end with a page: byte by byte there. */
    if (!remote_read(pid, (uint64_t)type.tp_name, name, NAME_BYTES - 1))
        for (size_t n = 0; n < NAME_BYTES - 1; n++)
            if (!remote_read(pid, (uint64_t)type.tp_name + n, name + n, 1) || !name[n])
                break;
    return *name != 0;
}

static bool number_text(pid_t pid, uint64_t at, char *out, size_t room)
{
    struct {
        PyObject head;
        uintptr_t tag;
        uint32_t digits[2]; /* 30 bits each */
    } n;
    if (!remote_read(pid, at, &n, sizeof n))
        return false;
    size_t n_digits = n.tag >> 3;
    if (n_digits > 2)
        return snprintf(out, room, "<int of %zu bits>", n_digits * 30) > 0;
    uint64_t value =
        (n_digits > 0 ? n.digits[0] : 0) | (n_digits > 1 ? (uint64_t)n.digits[1] << 30 : 0);
    return snprintf(out, room, "%s%" PRIu64, (n.tag & 3) == 2 ? "-" : "", value) > 0;
}

static bool count_text(pid_t pid, uint64_t at, const char *what, char *out, size_t room)
{
    static const struct {
        const char *name;
        size_t at;
    } counts[] = {
        {"list", offsetof(PyVarObject, ob_size)},   {"tuple", offsetof(PyVarObject, ob_size)},
        {"bytes", offsetof(PyVarObject, ob_size)},  {"bytearray", offsetof(PyVarObject, ob_size)},
        {"dict", offsetof(PyDictObject, ma_used)},  {"set", offsetof(PySetObject, used)},
        {"frozenset", offsetof(PySetObject, used)},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        Py_ssize_t n;
        if (!strcmp(what, counts[i].name))
            return remote_read(pid, at + counts[i].at, &n, sizeof n) &&
                   snprintf(out, room, "<%s of %zd>", what, n) > 0;
    }
    return false;
}

/* A cell's content, or the object itself; 0: the cell is empty. */
static uint64_t content(pid_t pid, uint64_t at)
{
    char name[NAME_BYTES];
    bool is_static;
    PyCellObject cell;
    if (type_name(pid, at, name, &is_static) && is_static && !strcmp(name, "cell"))
        return remote_read(pid, at, &cell, sizeof cell) ? (uint64_t)cell.ob_ref : 0;
    return at;
}

static bool remote_value(pid_t pid, uint64_t at, struct remote_value *out)
{
    char name[NAME_BYTES];
    bool is_static;
    *out = (struct remote_value){0};
    if (!(at = content(pid, at)) || !type_name(pid, at, name, &is_static))
        return false;
    if (is_static) {
        double real;
        if (!strcmp(name, "str"))
            return out->is_string = remote_text(pid, at, &out->string);
        if (!strcmp(name, "NoneType"))
            return snprintf(out->text, sizeof out->text, "None") > 0;
        if (!strcmp(name, "bool") && number_text(pid, at, out->text, sizeof out->text))
            return snprintf(out->text, sizeof out->text, "%s",
                            *out->text == '0' ? "False" : "True") > 0;
        if (!strcmp(name, "int"))
            return number_text(pid, at, out->text, sizeof out->text);
        if (!strcmp(name, "float") &&
            remote_read(pid, at + offsetof(PyFloatObject, ob_fval), &real, sizeof real))
            return snprintf(out->text, sizeof out->text, "%.17g", real) > 0;
        if (count_text(pid, at, name, out->text, sizeof out->text))
            return true;
    }
    const char *dot = strrchr(name, '.');
    return snprintf(out->text, sizeof out->text, "<%s>", dot ? dot + 1 : name) > 0;
}

uint32_t remote_locals(pid_t pid, uint64_t address, struct remote_local *out, uint32_t most)
{
    PyCodeObject code;
    struct {
        PyVarObject head;
        uint64_t items[REMOTE_LOCALS_MAX];
    } names;
    uint64_t values[REMOTE_LOCALS_MAX], frame_code;
    frame_t head;
    if (!remote_read(pid, address, &head, FRAME_HEAD) || FRAME_IS_ENTRY(&head))
        return 0;
    frame_code = FRAME_CODE(&head);
    if (!remote_read(pid, frame_code, &code, offsetof(PyCodeObject, co_code_adaptive)))
        return 0;
    uint32_t n = code.co_nlocalsplus < 0 ? 0 : (uint32_t)code.co_nlocalsplus;
    n = n > most ? most : n > REMOTE_LOCALS_MAX ? REMOTE_LOCALS_MAX : n;
    if (!n ||
        !remote_read(pid, (uint64_t)code.co_localsplusnames + offsetof(PyTupleObject, ob_item),
                     names.items, n * sizeof *names.items) ||
        !remote_read(pid, address + FRAME_HEAD, values, n * sizeof *values))
        return 0;
    uint32_t n_found = 0;
    for (uint32_t i = 0; i < n; i++) {
#if PY_VERSION_HEX >= 0x030e0000
        if ((values[i] & 3) == 3)
            continue;       /* a number that is in the reference itself: of no variable */
        values[i] &= ~3ull; /* the tag of a borrowed reference */
#endif
        struct remote_local *each = &out[n_found];
        if (values[i] && remote_text(pid, names.items[i], &each->name) &&
            remote_value(pid, values[i], &each->value))
            n_found++;
    }
    return n_found;
}
