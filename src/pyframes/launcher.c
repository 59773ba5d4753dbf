#include "launcher.h"

struct launcher launcher;
