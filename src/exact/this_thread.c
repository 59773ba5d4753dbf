#include "call_tree.h"
#include "running_backward.h"
#include "regions.h"

__thread struct exact_this_thread exact_this_thread;
__thread struct causes *causes_this_thread;
__thread struct regions *regions_this_thread;
