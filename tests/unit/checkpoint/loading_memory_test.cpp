// What loading holds beside the state that it fills.
#include "checkpoint/reader.h"
#include "checkpoint/verify.h"
#include "tests/harness/count_allocations.h"
#include "tests/harness/temp_folder.h"
#include "tests/unit/checkpoint/other_memory.h"
#include "tests/unit/checkpoint/small_checkpoint.h"

namespace escalier::checkpoint {
namespace {

constexpr std::int64_t rows = 384, columns = 512, tensors = 12;
constexpr std::int64_t bookkeeping = 256 << 10;  // names, manifest, open files

std::string tensor_name(std::int64_t i) {
    return "t" + std::to_string(i) + ".weight";
}

// Masters and both moments of `tensors` matrices, 27 MiB, from two ranks that hold halves of the rows.
std::string write_large_checkpoint(const std::string& run) {
    PosixFiles files;
    std::vector<std::vector<SharePiece>> shares(2);
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
        for (const StateKind kind : all_state_kinds)
            for (std::int64_t i = 0; i < tensors; ++i) {
                const Block block{static_cast<std::int64_t>(rank) * rows / 2, 0, rows / 2, columns};
                shares[rank].push_back({shares[rank].size(),
                                        tensor_name(i),
                                        kind,
                                        {rows, columns},
                                        block,
                                        piece_key(tensor_name(i), kind, {rows, columns}, block)});
            }
    return write_checkpoint_of(files, run, 1, shares);
}

// Beside the state itself, the bytes that were held at most while it was loaded.
std::int64_t held_by_loading(const std::string& step, device::Device& device, const model::Box& box) {
    std::vector<std::vector<float>> memory;
    StateList state;
    for (const StateKind kind : all_state_kinds)
        for (std::int64_t i = 0; i < tensors; ++i) {
            memory.emplace_back(static_cast<std::size_t>(box.extent.elements()));
            state.push_back({tensor_name(i),
                             kind,
                             {rows, columns},
                             false,
                             box,
                             true,
                             TensorView(memory.back().data(), DType::f32, box.extent)});
        }
    test::start_peak();
    {
        const CheckpointReader reader(step);
        load_state(reader, state, device);
    }
    const std::int64_t held = test::peak_bytes();
    for (const StateTensor& tensor : state) {
        const std::int64_t last = box.extent.elements() - 1;
        EXPECT_EQ(tensor.view.as<float>()[0], small_value(tensor.kind, box.offset[0], box.offset[1]));
        EXPECT_EQ(tensor.view.as<float>()[last],
                  small_value(tensor.kind, box.offset[0] + last / box.extent[1],
                              box.offset[1] + last % box.extent[1]));
    }
    return held;
}

TEST(LoadingMemory, IsTheStateAndOneTensorAtMost) {
    const test::TempFolder folder;
    const std::string step = write_large_checkpoint(folder.path());
    const std::unique_ptr<device::Device> cpu = device::make_cpu_device();
    OtherMemory other;
    const model::Box whole{{0, 0}, {rows, columns}};
    const model::Box part{{96, 128}, {192, 256}};  // across both files
    for (const model::Box& box : {whole, part}) {
        EXPECT_LE(held_by_loading(step, *cpu, box), bookkeeping);
        const std::int64_t staged = held_by_loading(step, other, box);
        EXPECT_LE(staged, box.extent.elements() * 4 + bookkeeping);
        EXPECT_GE(staged, box.extent.elements() * 4) << "the count sees nothing";
    }
}

TEST(LoadingMemory, OfCheckingAFileIsOneBuffer) {
    const test::TempFolder folder;
    const CheckpointReader reader(write_large_checkpoint(folder.path()));
    test::start_peak();
    for (std::size_t i = 0; i < reader.manifest().files.size(); ++i) reader.verify_file(i);
    EXPECT_LE(test::peak_bytes(), (1 << 20) + bookkeeping);
}

}  // namespace
}  // namespace escalier::checkpoint
