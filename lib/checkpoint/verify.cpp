#include "checkpoint/verify.h"

#include <algorithm>
#include <numeric>

namespace escalier::checkpoint {

namespace {

void verify(const CheckpointReader& reader, std::vector<std::size_t> order, comm::MpiEnv& env) {
    const std::vector<ManifestFile>& files = reader.manifest().files;
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

}  // namespace

std::vector<std::size_t> files_of_the_model(const Manifest& manifest) {
    std::vector<bool> of_weights(manifest.files.size()), of_moments(manifest.files.size());
    for (const auto& [name, tensor] : manifest.tensors)
        for (const StateKind kind : all_state_kinds)
            for (const ManifestPiece& piece : tensor.of(kind))
                (kind == StateKind::weight ? of_weights : of_moments)[piece.file] = true;
    std::vector<std::size_t> files;
    for (std::size_t i = 0; i < manifest.files.size(); ++i)
        if (of_weights[i] || !of_moments[i]) files.push_back(i);
    return files;
}

void verify_model(const CheckpointReader& reader) {
    for (const std::size_t index : files_of_the_model(reader.manifest())) reader.verify_file(index);
}

void verify_model(const CheckpointReader& reader, comm::MpiEnv& env) {
    verify(reader, files_of_the_model(reader.manifest()), env);
}

void verify_files(const CheckpointReader& reader, comm::MpiEnv& env) {
    std::vector<std::size_t> all(reader.manifest().files.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    verify(reader, all, env);
}

}  // namespace escalier::checkpoint
