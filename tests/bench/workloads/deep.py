"""Print a C program that always stands 40 calls deep, in some of many functions.

python deep.py >deep.c

It runs for the seconds that it is given.  Its descents take functions by chance, 30,000 paths in
turn, of which each ten differ in their inner frames alone.
"""

FUNCTIONS, DEPTH = 400, 40 - 2  # below a frame of libc and main, above spin
PATHS, INNER = 30_000, 8

HEAD = f"""\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define FUNCTIONS {FUNCTIONS}
#define DEPTH {DEPTH}
#define OUTER {DEPTH - INNER}
#define PATHS {PATHS}
typedef unsigned step(unsigned state, unsigned path, int depth);
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
static __attribute__((noinline)) unsigned f{0}(unsigned state, unsigned path, int depth)
{{
    state = next(depth == OUTER ? state ^ path * 2654435761u : state);
    if (depth == DEPTH)
        return spin(state);
    return table[(state >> 8) % FUNCTIONS](state, path, depth + 1) + {0};
}}
"""
TAIL = """\
int main(int argc, char **argv)
{
    clock_t end = clock() + (clock_t)(CLOCKS_PER_SEC * atof(argc > 1 ? argv[1] : "1"));
    unsigned path = 0, sum = 0;

    for (; clock() < end; path = (path + 1) % PATHS) {
        unsigned state = next(next(path / 10 + 1));

        sum += table[(state >> 8) % FUNCTIONS](state, path, 1);
    }
    printf("%u\\n", sum);
    return 0;
}
"""

names = [f"f{number}" for number in range(FUNCTIONS)]
print(HEAD + "".join(map(FUNCTION.format, range(FUNCTIONS))))
print(f"static step *const table[FUNCTIONS] = {{{', '.join(names)}}};")
print(TAIL)
