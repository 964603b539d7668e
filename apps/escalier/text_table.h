// Tables on the terminal.
#pragma once

#include <string>
#include <vector>

namespace escalier::apps {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell; the first and the last to the left, numbers between to the right.
// Rows are of equal length.
std::string text_table(const std::vector<Row>& rows);

}  // namespace escalier::apps
