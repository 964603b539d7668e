#include "comm/staged_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/progress.h"
#include "core/check.h"

namespace escalier::comm {

StagedShared::StagedShared(MpiEnv& env_, device::CudaDevice& device_, std::int64_t buffer_bytes_)
    : env(env_), device(device_), buffer_bytes(buffer_bytes_) {
    for (Buffer& buffer : buffers)
        buffer.memory = StagedMemory(device, static_cast<std::size_t>(buffer_bytes), "of collectives");
}

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> host_group, StagedShared& shared,
                                       Transport& transport)
    : host_(std::move(host_group)),
      shared_(shared),
      transport_(transport),
      sums_(*host_, shared.env, shared.device) {}

void StagedCommunicator::wait_for(const device::CudaEvent& event, const char* label) {
    if (event.passed()) return;
    shared_.env.wait_until(label, [&] {
        shared_.env.progress().poll();
        return event.passed();
    });
}

// exchange(view of the host) on every part of x, while the next part is copied. All copies are in the
// device's own queue, so a buffer that was filled has been read before.
template <class Exchange>
void StagedCommunicator::through_host(TensorView x, const char* label, const Exchange& exchange) {
    if (x.elements() == 0) return;
    device::CudaDevice& device = shared_.device;
    const TensorView flat = x.reshaped({x.elements()});
    const std::int64_t most = shared_.buffer_bytes / static_cast<std::int64_t>(size_of(x.dtype()));
    const std::int64_t parts = (x.elements() + most - 1) / most;
    const auto part = [&](std::int64_t p) {
        return flat.rows(p * most, std::min(most, x.elements() - p * most));
    };
    const auto buffer = [&](std::int64_t p) -> StagedShared::Buffer& {
        return shared_.buffers[static_cast<std::size_t>(p % 2)];
    };
    const auto fill = [&](std::int64_t p) {
        device.download(buffer(p).memory.data(), part(p).data(), part(p).bytes());
        buffer(p).filled.record(device.stream());
    };
    fill(0);
    for (std::int64_t p = 0; p < parts; ++p) {
        if (p + 1 < parts) fill(p + 1);
        wait_for(buffer(p).filled, label);
        exchange(TensorView(buffer(p).memory.data(), x.dtype(), part(p).shape()));
        device.upload(part(p).data(), buffer(p).memory.data(), part(p).bytes());
    }
}

void StagedCommunicator::all_reduce_sum(TensorView x, const char* label) {
    if (size() > 1) through_host(x, label, [&](TensorView part) { host_->all_reduce_sum(part, label); });
}

void StagedCommunicator::all_reduce_max(TensorView x, const char* label) {
    if (size() > 1) through_host(x, label, [&](TensorView part) { host_->all_reduce_max(part, label); });
}

void StagedCommunicator::broadcast(TensorView x, int root, const char* label) {
    if (size() > 1) through_host(x, label, [&](TensorView part) { host_->broadcast(part, root, label); });
}

// The first buffer takes the parts of all ranks, the second the own one.
void StagedCommunicator::all_gather(TensorView out, TensorView in, const char* label) {
    ESCALIER_CHECK(out.bytes() == in.bytes() * static_cast<std::size_t>(size()), "all_gather: sizes differ");
    device::CudaDevice& device = shared_.device;
    StagedShared::Buffer &all = shared_.buffers[0], &own = shared_.buffers[1];
    const auto bytes = static_cast<std::int64_t>(in.bytes());
    const std::int64_t most = shared_.buffer_bytes / size();
    char* to = static_cast<char*>(out.data());
    for (std::int64_t begin = 0; begin < bytes; begin += most) {
        const std::int64_t count = std::min(most, bytes - begin);
        const auto length = static_cast<std::size_t>(count);
        device.download(own.memory.data(), static_cast<const char*>(in.data()) + begin, length);
        own.filled.record(device.stream());
        wait_for(own.filled, label);
        host_->all_gather(TensorView(all.memory.data(), DType::u8, {count * size()}),
                          TensorView(own.memory.data(), DType::u8, {count}), label);
        for (int r = 0; r < size(); ++r)
            device.upload(to + r * bytes + begin, all.memory.data() + r * count, length);
    }
}

}  // namespace escalier::comm
