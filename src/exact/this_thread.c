#include "call_tree.h"
#include "running_backward.h"
#include "regions.h"

__thread struct exact_mine exact_mine;
__thread struct causes *causes_mine;
__thread struct regions *regions_mine;
