#include "tests/harness/multirank_main.h"
