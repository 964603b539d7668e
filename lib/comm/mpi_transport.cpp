#include "comm/mpi_env.h"
#include "comm/transport.h"

namespace escalier::comm {

namespace {

class MpiTransport final : public Transport {
 public:
    explicit MpiTransport(MpiEnv& env) : env_(env) {}
    std::string name() const override { return "mpi"; }
    std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> host_group) override {
        return host_group;
    }
    std::unique_ptr<Channel> make_channel(Communicator& group, int from, int to, int depth,
                                          bool synchronous_sends) override {
        return env_.make_channel(group, from, to, depth, synchronous_sends);
    }
    void check() override {}

 private:
    MpiEnv& env_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(MpiEnv& env) {
    return std::make_unique<MpiTransport>(env);
}

}  // namespace escalier::comm
