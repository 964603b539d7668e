// The text of configs/hardware/*.yaml, built in so that a binary needs no path to find it.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace escalier::plan {

std::span<const std::pair<std::string_view, std::string_view>> built_in_files();  // name, text

}  // namespace escalier::plan
