#include "train/outside_arenas.h"

#include "comm/planned_communicator.h"
#include "kernels/cuda_sizes.h"

namespace escalier::train {

namespace {

using parallel::GroupKind;

constexpr std::int64_t mib = std::int64_t{1} << 20;

// Measured, without arenas: the binary, MPI, the matrix library, and the threads of comm.
constexpr std::int64_t process_bytes = 30 * mib;
constexpr std::int64_t bytes_per_thread = 1 * mib;
// What the writer of checkpoints turns tensors round in, and what malloc keeps of it.
constexpr std::int64_t saving_bytes = 16 * mib;
// A CUDA context with the kernels that are loaded, and the host's side of it; of NCCL, its sums and a group.
constexpr std::int64_t cuda_context_bytes = 600 * mib, cuda_host_bytes = 400 * mib;
constexpr std::int64_t nccl_sum_bytes = 32 * mib, nccl_group_bytes = 64 * mib;

}  // namespace

OutsideArenas outside_arenas(const config::JobSpec& spec, int threads, bool overlaps, int ranks,
                             const std::vector<GroupExtent>& groups) {
    const bool gpu = spec.run.device == "cuda", nccl = spec.run.comm == "nccl";
    OutsideArenas outside;
    outside.host = process_bytes + bytes_per_thread * (threads - 1);
    if (spec.checkpoint.saves()) outside.host += saving_bytes;
    for (const GroupExtent& group : groups) {
        // What pp and model exchange is a few numbers.
        if (group.kind == GroupKind::pp || group.kind == GroupKind::model || group.size == 1) continue;
        const bool background = group.kind == GroupKind::dp || (group.kind == GroupKind::tp && overlaps);
        if (!nccl) outside.host += comm::group_host_bytes(group.size, group.one_node, background);
        if (nccl) outside.device += nccl_group_bytes;
    }
    if (!gpu) return outside;
    outside.host += cuda_host_bytes;
    outside.device += cuda_context_bytes + static_cast<std::int64_t>(kernels::cuda::matmul_workspace_bytes);
    if (nccl && ranks > 1) outside.device += nccl_sum_bytes;
    return outside;
}

}  // namespace escalier::train
