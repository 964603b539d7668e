#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/run_folder.h"
#include "core/error.h"
#include "scratch_folder.h"
#include "targets.h"

namespace escalier::fuzz {

namespace {

// A file of two tensors, as the manifests of the corpus describe it.
std::string weights_file() {
    std::string header = R"({"a.weight[0:2,0:3]":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                         R"("b.bias":{"dtype":"F32","shape":[4],"data_offsets":[24,40]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(40, '\0');
}

void read_everything(const checkpoint::CheckpointReader& reader) {
    for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) {
        try {
            reader.verify_file(file);
        } catch (const DataError&) {  // no fuzzer finds a hash, and the rest can still be read
        }
    }
    for (const checkpoint::StateKind kind : checkpoint::all_state_kinds) {
        const checkpoint::TensorSource& source = reader.tensors(kind);
        for (const auto& [name, tensor] : source.tensors()) {
            const bool vector = tensor.shape.size() == 1;
            const Shape extent = vector ? Shape{tensor.shape[0]} : Shape{tensor.shape[0], tensor.shape[1]};
            // The files have room for so many, and the first one that is missing ends the reading.
            if (extent.elements() > 10) throw DataError(name + ": larger than the file");
            std::vector<float> values(static_cast<std::size_t>(extent.elements()));
            source.read_box(name, {vector ? Shape{0} : Shape{0, 0}, extent}, false, values.data());
            if (!vector)
                source.read_box(name, {{0, 0}, {tensor.shape[1], tensor.shape[0]}}, true, values.data());
        }
    }
}

// A folder that is a checkpoint without tensors.
std::string whole_checkpoint(const std::filesystem::path& path) {
    std::filesystem::create_directory(path);
    checkpoint::Manifest manifest;
    manifest.run.step = 3;
    std::ofstream(path / checkpoint::manifest_name) << manifest.text();
    return path;
}

}  // namespace

void checkpoint_manifest(std::string_view input) {
    static const ScratchFolder folder;
    static const std::string weights = folder.write("weights-00000.safetensors", weights_file());
    folder.write(checkpoint::manifest_name, input);
    const checkpoint::CheckpointReader reader(folder.path());
    const std::string written = reader.manifest().text();
    if (checkpoint::parse_manifest(written, "manifest.json") != reader.manifest())
        throw std::logic_error("the manifest reads back to another one:\n" + written);
    read_everything(reader);
}

void checkpoint_latest(std::string_view input) {
    static const ScratchFolder folder;
    static const std::string only = whole_checkpoint(folder.path() / "step_00000003");
    folder.write(checkpoint::latest_name, input);
    const checkpoint::Choice choice = checkpoint::newest_checkpoint(folder.path());
    if (choice.directory != only) throw std::logic_error("it chose '" + choice.directory + "'");
    if (!choice.warnings.empty()) throw DataError(choice.warnings[0]);
}

}  // namespace escalier::fuzz
