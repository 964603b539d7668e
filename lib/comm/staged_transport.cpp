#include "comm/staged_transport.h"

#include <utility>

#include "comm/progress.h"
#include "comm/staged_channel.h"
#include "comm/staged_communicator.h"

namespace escalier::comm {

namespace {

class StagedTransport final : public Transport {
 public:
    StagedTransport(MpiEnv& env, device::CudaDevice& device, std::int64_t buffer_bytes)
        : env_(env), device_(device), shared_(env, device, buffer_bytes) {}

    std::string name() const override { return "staged"; }
    std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> host_group) override {
        if (!host_group) return nullptr;
        return std::make_unique<StagedCommunicator>(std::move(host_group), shared_, *this);
    }
    std::unique_ptr<Channel> make_channel(Communicator& group, int from, int to, int depth,
                                          bool synchronous_sends) override {
        std::unique_ptr<Channel> hosts = env_.make_channel(group, from, to, depth, synchronous_sends);
        if (!hosts) return nullptr;
        return std::make_unique<StagedChannel>(std::move(hosts), depth, env_, device_);
    }
    // Asked while the host waits for the device. Errors are thrown where a message or a sum is waited for.
    void check() override { env_.progress().poll(); }

 private:
    MpiEnv& env_;
    device::CudaDevice& device_;
    StagedShared shared_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_transport(MpiEnv& env, device::CudaDevice& device,
                                                 std::int64_t buffer_bytes) {
    return std::make_unique<StagedTransport>(env, device, buffer_bytes);
}

}  // namespace escalier::comm
