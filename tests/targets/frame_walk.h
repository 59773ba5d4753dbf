/* frame_walk.h - what the sampler's walks need, set up for the main thread of a program that loads them.
 *
 * Each .c file that includes it has its own.  frame_walk_init is called with the GIL, from Python code.
 */
#include <stdio.h>
#include <string.h>

#include "libraries.h"
#include "memread.h"
#include "pyframe.h"
#include "stack_bounds.h"
#include "unwind.h"

static struct unwind unwinder;
static struct py_layout layout;
static uint64_t main_stack_high;

/* NULL, or what is wrong. */
static const char *frame_walk_init(void)
{
    char line[512];
    uint64_t low, high;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &low, &high) == 2)
            main_stack_high = high;
    if (maps)
        fclose(maps);
    if (memread_init() || !main_stack_high)
        return "no stack, or it cannot be read";
    libraries_use_table(false);
    libraries_update();
    stack_bounds_update(&unwinder, (uint64_t)__builtin_frame_address(0), main_stack_high);
    unwind_refresh(&unwinder);
    return pyframe_calibrate(&unwinder, &layout);
}
