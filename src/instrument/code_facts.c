/* code_facts.c - what is told of a function whose single calls are kept, beside its name: once a function.
 *
 * Context: with the GIL; none of the program's code runs.
 */
#include "shadow.h"

#include <string.h>

#include "plain_text.h"
#include "spool.h"

/* Adds a text and a zero.  False: it does not fit. */
static bool add_text(unsigned char *to, size_t *at, PyObject *text)
{
    PyObject *bytes = plain_text(text, "surrogatepass");
    size_t n = bytes ? (size_t)PyBytes_GET_SIZE(bytes) + 1 : 0;
    bool fits = bytes && n <= CODE_FACTS_MAX - *at;
    if (fits) {
        memcpy(to + *at, PyBytes_AS_STRING(bytes), n);
        *at += n;
    }
    Py_XDECREF(bytes);
    return fits;
}

static uint32_t n_arguments(const PyCodeObject *code)
{
    return (uint32_t)(code->co_argcount + code->co_kwonlyargcount) +
           !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
}

void code_facts_tell(struct exact *x, const PyCodeObject *code, PyObject *module)
{
    unsigned char *to = block_queue_reserve(&x->code_facts, CODE_FACTS_MAX, CODE_FACTS_MAX);
    PyObject *variables = PyCode_GetVarnames((PyCodeObject *)code), *none = PyUnicode_New(0, 0);
    size_t at = sizeof(struct spool_code_facts);
    if (to && variables && none && add_text(to, &at, code->co_qualname) &&
        add_text(to, &at, code->co_filename) && add_text(to, &at, module ? module : none) &&
        add_text(to, &at, code->co_name)) {
        struct spool_code_facts head = {.first_line = (uint32_t)code->co_firstlineno,
                                        .stack_size = (uint32_t)code->co_stacksize,
                                        .n_arguments = n_arguments(code)};
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(variables); i++)
            if (!add_text(to, &at, PyTuple_GET_ITEM(variables, i)))
                break;
        head.length = (uint32_t)at;
        memcpy(to, &head, sizeof head);
        block_queue_commit(&x->code_facts, at);
    }
    Py_XDECREF(variables);
    Py_XDECREF(none);
    PyErr_Clear();
}
