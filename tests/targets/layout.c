/* What the sampler finds wrong with this interpreter (pyframe_calibrate), built with headers of one that differs.
 *
 *     layout_wrong()   NULL, or what is wrong
 *
 * Links what frame_steps.py does.  Called with the GIL, from a Python function (ctypes.PyDLL).
 */
#include <Python.h>

#include "frame_walk.h"

__attribute__((visibility("default"))) const char *layout_wrong(void);

const char *layout_wrong(void)
{
    return frame_walk_init();
}
