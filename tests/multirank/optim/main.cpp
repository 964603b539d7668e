#include "tests/multirank/optim/main.h"

#include <gtest/gtest.h>

namespace escalier::multirank {

namespace {
comm::MpiEnv* environment = nullptr;
}

comm::MpiEnv& mpi() {
    return *environment;
}

}  // namespace escalier::multirank

int main(int argc, char** argv) {
    escalier::comm::MpiEnv environment(&argc, &argv);
    escalier::multirank::environment = &environment;
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
