// main() of this test: see the header.
#include "tests/harness/multirank_main.h"
