/* Linked into a test, it lets its unwinder find modules by the table of libraries.h. */
#include <stdlib.h>

#include "libraries.h"
#include "memread.h"

__attribute__((constructor)) static void use_table(void)
{
    if (memread_init())
        abort();
    libraries_use_table(true);
    libraries_update();
}
