#include "core/edit_distance.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace escalier {

int edit_distance(std::string_view a, std::string_view b) {
    const std::size_t n = a.size(), m = b.size();
    std::vector<int> before_last(m + 1), last(m + 1), row(m + 1);
    for (std::size_t j = 0; j <= m; ++j) row[j] = static_cast<int>(j);
    for (std::size_t i = 1; i <= n; ++i) {
        before_last.swap(last);
        last.swap(row);
        row[0] = static_cast<int>(i);
        for (std::size_t j = 1; j <= m; ++j) {
            const int change = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
    }
    return row[m];
}

bool is_within(int distance, std::string_view a, std::string_view b) {
    const auto [shorter, longer] = std::minmax({a.size(), b.size()});
    return static_cast<std::int64_t>(longer - shorter) <= distance && edit_distance(a, b) <= distance;
}

}  // namespace escalier
