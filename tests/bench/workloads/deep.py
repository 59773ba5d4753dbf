"""Print a C program that always stands 40 calls deep, in some of many functions.

python deep.py >deep.c

It runs for the seconds that it is given.  Each descent takes functions of its own by chance, so
that stacks differ as those of a large program do.
"""

FUNCTIONS, DEPTH = 400, 40 - 3  # below _start, __libc_start_main and main

HEAD = f"""\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define FUNCTIONS {FUNCTIONS}
#define DEPTH {DEPTH}
typedef unsigned step(unsigned state, int depth);
static step *const table[FUNCTIONS];
static unsigned next(unsigned state) {{ return state * 1664525u + 1013904223u; }}
static unsigned spin(unsigned state)
{{
    for (int i = 0; i < 20000; i++)
        __asm__ volatile("" : "+r"(state));
    return state;
}}
"""
FUNCTION = """\
static __attribute__((noinline)) unsigned f{0}(unsigned state, int depth)
{{
    state = next(state);
    return depth == DEPTH ? spin(state) : table[state >> 8 & 255](state, depth + 1) + {0};
}}
"""
TAIL = """\
int main(int argc, char **argv)
{
    clock_t end = clock() + (clock_t)(CLOCKS_PER_SEC * atof(argc > 1 ? argv[1] : "1"));
    unsigned state = 1;

    while (clock() < end)
        state = table[state % FUNCTIONS](state, 1);
    printf("%u\\n", state);
    return 0;
}
"""

names = [f"f{number}" for number in range(FUNCTIONS)]
print(HEAD + "".join(map(FUNCTION.format, range(FUNCTIONS))))
print(f"static step *const table[FUNCTIONS] = {{{', '.join(names)}}};")
print(TAIL)
