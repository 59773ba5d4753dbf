#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "plain_text.h"

/* BCC's ucalls and uflow read so many bytes of a string, whatever its length, and distinguish functions by all of
 * them. */
#define READ_AT_LEAST 80

static const char *copy_text(PyObject *text)
{
    PyObject *bytes = plain_text(text, "backslashreplace");
    const char *from = bytes ? PyBytes_AS_STRING(bytes) : "?";
    size_t n = strlen(from) + 1;
    char *copy = calloc(n < READ_AT_LEAST ? READ_AT_LEAST : n, 1);
    if (copy)
        memcpy(copy, from, n);
    Py_XDECREF(bytes);
    return copy;
}

void names_append(char **to, Py_UCS4 c)
{
    if (c < 0x80) {
        *(*to)++ = (char)c;
    } else if (c < 0x800) {
        *(*to)++ = (char)(0xc0 | c >> 6);
        *(*to)++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *(*to)++ = (char)(0xe0 | c >> 12);
        *(*to)++ = (char)(0x80 | (c >> 6 & 0x3f));
        *(*to)++ = (char)(0x80 | (c & 0x3f));
    } else {
        *(*to)++ = (char)(0xf0 | c >> 18);
        *(*to)++ = (char)(0x80 | (c >> 12 & 0x3f));
        *(*to)++ = (char)(0x80 | (c >> 6 & 0x3f));
        *(*to)++ = (char)(0x80 | (c & 0x3f));
    }
}

/* As the codec unicode_escape does it. */
static void append_escaped(char **to, Py_UCS4 c)
{
    if (c == '\n' || c == '\r' || c == '\t')
        *to += sprintf(*to, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else
        *to += sprintf(*to, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static const char *copy_shown(PyObject *text)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(text);
    char *copy = malloc((size_t)n * 10 + 1), *to = copy;
    for (Py_ssize_t i = 0; copy && i < n; i++) {
        Py_UCS4 c = PyUnicode_READ_CHAR(text, i);
        if (Py_UNICODE_ISPRINTABLE(c))
            names_append(&to, c);
        else
            append_escaped(&to, c);
    }
    if (!copy)
        return NULL;
    *to = 0;
    char *shorter = realloc(copy, (size_t)(to - copy) + 1);
    return shorter ? shorter : copy;
}

void names_free(const struct emit_function *f)
{
    if (!f)
        return;
    const struct emit_names *names[] = {&f->names, &f->shown};
    for (int i = 0; i < 2; i++) {
        free((char *)names[i]->name);
        free((char *)names[i]->qualname);
        free((char *)names[i]->file);
    }
    free((struct emit_function *)f);
}

static bool fill(struct emit_names *names, const char *(*copy)(PyObject *),
                 PyObject *const texts[3])
{
    names->name = copy(texts[0]);
    names->qualname = copy(texts[1]);
    names->file = copy(texts[2]);
    return names->name && names->qualname && names->file;
}

/* `texts`: name, qualified name, file. */
static struct emit_function *new_function(PyObject *const texts[3], uint32_t id)
{
    struct emit_function *f = calloc(1, sizeof *f);
    if (f && fill(&f->names, copy_text, texts) && fill(&f->shown, copy_shown, texts)) {
        f->id = id;
        return f;
    }
    names_free(f);
    return NULL;
}

const struct emit_function *names_of_code(const PyCodeObject *code, uint32_t id)
{
    PyObject *texts[] = {code->co_name, code->co_qualname, code->co_filename};
    struct emit_function *f = new_function(texts, id);
    if (f && code->co_firstlineno > 0)
        f->line = (uint32_t)code->co_firstlineno;
    return f;
}

const struct emit_function *names_of_region(const char *name, uint32_t length, uint32_t id)
{
    PyObject *error = PyErr_GetRaisedException();
    PyObject *text = PyUnicode_DecodeUTF8(name, length, "backslashreplace");
    PyObject *none = PyUnicode_FromString("");
    PyObject *texts[] = {text, text, none};
    struct emit_function *f = text && none ? new_function(texts, id) : NULL;
    if (f)
        f->is_region = true;
    Py_XDECREF(text);
    Py_XDECREF(none);
    PyErr_SetRaisedException(error);
    return f;
}

void names_shown(char *to, size_t size, const char *name)
{
    PyObject *error = PyErr_GetRaisedException();
    PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "backslashreplace");
    const char *shown = text ? copy_shown(text) : NULL;
    snprintf(to, size, "%s", shown ? shown : "?");
    free((char *)shown);
    Py_XDECREF(text);
    PyErr_SetRaisedException(error);
}
