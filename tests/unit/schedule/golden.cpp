#include "golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "schedule/csv.h"

namespace escalier::schedule {
namespace {

const std::string folder = std::string(ESCALIER_GOLDEN) + "/schedule_orders/";

template <class T>
std::vector<T> numbers(const std::string& text) {
    std::istringstream in(text);
    std::vector<T> values;
    for (T value; in >> value;) values.push_back(value);
    return values;
}

}  // namespace

Schedule read_order(const std::string& file) {
    std::ifstream in(folder + file);
    if (!in) throw std::runtime_error("cannot read " + folder + file);
    return from_csv(in, file);
}

std::vector<std::string> order_files(const std::string& prefix) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (name.rfind(prefix, 0) == 0 && name.find("_P") != std::string::npos) files.push_back(name);
    }
    std::sort(files.begin(), files.end());
    return files;
}

std::vector<Metrics> read_metrics() {
    std::ifstream in(folder + "METRICS.csv");
    std::string line;
    std::getline(in, line);
    std::vector<Metrics> all;
    while (std::getline(in, line)) {
        std::vector<std::string> f;
        std::istringstream cells(line);
        for (std::string text; std::getline(cells, text, ',');) f.push_back(text);
        const double forward = std::stod(f.at(2)), input_gradient = std::stod(f.at(3)),
                     weight_gradient = std::stod(f.at(4));
        const double pair_factor =
            f.at(6).empty() ? 1 : std::stod(f.at(6)) / (forward + input_gradient + weight_gradient);
        all.push_back({f.at(0), f.at(1), forward, input_gradient, weight_gradient, std::stod(f.at(5)),
                       pair_factor, std::stod(f.at(7)), std::stod(f.at(8)), std::stod(f.at(9)),
                       numbers<double>(f.at(10)), numbers<int>(f.at(11)), numbers<int>(f.at(12)),
                       std::stoi(f.at(13)), numbers<int>(f.at(14))});
    }
    return all;
}

}  // namespace escalier::schedule
