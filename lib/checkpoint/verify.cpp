#include "checkpoint/verify.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace escalier::checkpoint {

void verify_files(const CheckpointReader& reader, comm::MpiEnv& env) {
    const std::vector<ManifestFile>& files = reader.manifest().files;
    std::vector<std::size_t> order(files.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return files[a].bytes > files[b].bytes; });
    std::vector<std::uint64_t> load(static_cast<std::size_t>(env.world().size()));
    std::vector<std::size_t> mine;
    for (const std::size_t index : order) {
        const auto least = std::min_element(load.begin(), load.end());
        *least += files[index].bytes;
        if (least - load.begin() == env.world().rank()) mine.push_back(index);
    }
    env.agree([&] {
        for (const std::size_t index : mine) reader.verify_file(index);
    });
}

}  // namespace escalier::checkpoint
