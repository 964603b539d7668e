// Sections of a report that are bars and tables; empty where the run says nothing about them.
#pragma once

#include <string>

#include "report/page.h"

namespace escalier::report {

std::string split_section(const RunData& data);    // mean step of every rank
std::string bubble_section(const RunData& data);   // idle in theory, simulated, measured
std::string memory_section(const RunFolder& run);  // arenas and peak by rank
std::string ranks_section(const RunFolder& run);   // who ran where, and with what

}  // namespace escalier::report
