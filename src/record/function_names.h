/* function_names.h - who takes names for native functions that samples or events met.
 *
 * Context: ordinary threads.
 */
#ifndef PYH_FUNCTION_NAMES_H
#define PYH_FUNCTION_NAMES_H

#include <stdbool.h>
#include <stdint.h>

struct function_names {
    bool (*wanted)(void *arg, uint64_t start); /* was the function that starts there met? */
    void (*add)(void *arg, uint64_t start, const char *name, uint32_t length); /* UTF-8 */
    void *arg;
};

#endif
