/* region_attributes.c - a region's attributes as the spool has them.
 *
 * Context: with the GIL.  Nothing of the program runs: what is not a plain number or text is recorded by its type.
 */
#include "region_stack.h"

#include <string.h>

#include "spool.h"

struct text {
    const char *at;
    size_t n;
};

static struct text utf8_of(PyObject *words)
{
    Py_ssize_t length;
    const char *at = PyUnicode_AsUTF8AndSize(words, &length);
    if (at)
        return (struct text){at, (size_t)length};
    PyErr_Clear(); /* lone surrogates */
    return (struct text){"?", 1};
}

/* What `value` is, and its text, which lives as long as `*shown` does (to be released, if it is not NULL). */
static enum spool_attribute_kind kind_of(PyObject *value, PyObject **shown, struct text *text)
{
    *text = (struct text){"", 0};
    if (value == Py_None)
        return ATTRIBUTE_NONE;
    if (PyBool_Check(value))
        return value == Py_True ? ATTRIBUTE_TRUE : ATTRIBUTE_FALSE;
    if (PyUnicode_Check(value)) {
        *text = utf8_of(value);
        return ATTRIBUTE_TEXT;
    }
    bool is_float = PyFloat_CheckExact(value);
    if ((is_float || PyLong_CheckExact(value)) && (*shown = PyObject_Repr(value))) {
        *text = utf8_of(*shown);
        return is_float ? ATTRIBUTE_FLOAT : ATTRIBUTE_INT;
    }
    PyErr_Clear(); /* an int of more digits than may be shown */
    const char *name = Py_TYPE(value)->tp_name;
    *text = (struct text){name, strlen(name)};
    return ATTRIBUTE_OTHER;
}

static bool put(unsigned char *to, size_t max, size_t *n, struct text name,
                enum spool_attribute_kind kind, struct text text)
{
    struct spool_attribute field = {
        .kind = (uint16_t)kind, .key_length = (uint16_t)name.n, .value_length = (uint32_t)text.n};
    if (name.n > UINT16_MAX || name.n + text.n + sizeof field > max - *n)
        return false;
    memcpy(to + *n, &field, sizeof field);
    memcpy(to + *n + sizeof field, name.at, name.n);
    memcpy(to + *n + sizeof field + name.n, text.at, text.n);
    *n += sizeof field + name.n + text.n;
    return true;
}

bool region_attributes_add(unsigned char *to, size_t max, size_t *n, PyObject *name,
                           const char *text)
{
    return *n <= max &&
           put(to, max, n, utf8_of(name), ATTRIBUTE_TEXT, (struct text){text, strlen(text)});
}

size_t region_attributes(PyObject *attributes, unsigned char to[static REGION_ATTRIBUTES_MAX])
{
    PyObject *key, *value;
    Py_ssize_t next = 0;
    size_t n = 0;
    bool fits = true;
    while (fits && PyDict_Next(attributes, &next, &key, &value)) {
        PyObject *shown = NULL;
        struct text text;
        enum spool_attribute_kind kind = kind_of(value, &shown, &text);
        fits = put(to, REGION_ATTRIBUTES_MAX, &n, utf8_of(key), kind, text);
        Py_XDECREF(shown);
    }
    return fits ? n : 0;
}
