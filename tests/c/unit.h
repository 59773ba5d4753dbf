/* unit.h - cmocka, with what its header needs included before it.
 *
 * Each test_MODULE.c is one program; each of its cases has in its name what must hold.
 */
#ifndef PYH_TEST_UNIT_H
#define PYH_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Random enough, the same in every run; `state` is not 0 (Marsaglia's xorshift64). */
static inline uint64_t unit_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
