#include <sstream>
#include <stdexcept>
#include <string>

#include "schedule/csv.h"
#include "schedule/prove.h"
#include "targets.h"

namespace escalier::fuzz {

void schedule_csv(std::string_view input) {
    std::istringstream in{std::string(input)};
    const schedule::Schedule read = schedule::from_csv(in, "order.csv");
    schedule::prove(read);
    const std::string written = schedule::to_csv(read, {.overlap = true, .communication = true});
    std::istringstream back(written);
    if (schedule::to_csv(schedule::from_csv(back, "order.csv"), {.overlap = true, .communication = true}) !=
        written)
        throw std::logic_error("the schedule reads back to another one:\n" + written);
}

}  // namespace escalier::fuzz
