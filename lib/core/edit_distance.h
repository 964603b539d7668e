// How far two words are apart, for "did you mean".
#pragma once

#include <string_view>

namespace escalier {

// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and swaps of
// neighbours.
int edit_distance(std::string_view a, std::string_view b);

// Whether it is at most `distance`; at once where the lengths tell, however long one of the words is.
bool is_within(int distance, std::string_view a, std::string_view b);

}  // namespace escalier
