#include "parallel/grid.h"

namespace escalier::parallel {

std::string Grid::text() const {
    return std::to_string(tp) + "x" + std::to_string(pp) + "x" + std::to_string(dp);
}

}  // namespace escalier::parallel
