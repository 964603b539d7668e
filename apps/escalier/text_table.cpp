#include "text_table.h"

#include <algorithm>

namespace escalier::apps {

std::string text_table(const std::vector<Row>& rows) {
    std::vector<std::size_t> widths(rows.empty() ? 0 : rows.front().size());
    for (const Row& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    std::string out;
    for (const Row& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string gap(widths[i] - row[i].size(), ' ');
            const bool last = i + 1 == row.size();
            out += (i == 0 ? "" : "  ");
            out += i == 0 ? row[i] + gap : last ? row[i] : gap + row[i];
        }
        while (!out.empty() && out.back() == ' ') out.pop_back();
        out += '\n';
    }
    return out;
}

}  // namespace escalier::apps
