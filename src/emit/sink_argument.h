/* sink_argument.h - the ARG of `--emit NAME:ARG` where it is WORD, WORD:REST or REST. */
#ifndef PYH_SINK_ARGUMENT_H
#define PYH_SINK_ARGUMENT_H

#include <stdbool.h>
#include <string.h>

/* Does it have this word?  Then *argument is what is left, perhaps nothing. */
static inline bool sink_argument_takes(const char **argument, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*argument, word, n) || ((*argument)[n] && (*argument)[n] != ':'))
        return false;
    *argument += (*argument)[n] ? n + 1 : n;
    return true;
}

#endif
