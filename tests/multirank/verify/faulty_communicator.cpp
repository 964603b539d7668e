#include "tests/multirank/verify/faulty_communicator.h"

#include <cstring>
#include <utility>

namespace escalier::train {

namespace {

class FaultySum final : public comm::AllReduce {
 public:
    FaultySum(std::unique_ptr<comm::AllReduce> inner, TensorView x, int rank, CommFault fault)
        : inner_(std::move(inner)), x_(x), rank_(rank), fault_(fault) {}
    void start() override {
        if (fault_ == CommFault::skip) return;
        if (fault_ == CommFault::one_less && rank_ == 1) std::memset(x_.data(), 0, x_.bytes());
        inner_->start();
    }
    bool done() override { return inner_->done(); }
    void wait(const char* label) override { inner_->wait(label); }

 private:
    std::unique_ptr<comm::AllReduce> inner_;
    TensorView x_;
    int rank_;
    CommFault fault_;
};

class FaultyCommunicator final : public comm::Communicator {
 public:
    FaultyCommunicator(std::unique_ptr<comm::Communicator> inner, std::string label, CommFault fault)
        : inner_(std::move(inner)), label_(std::move(label)), fault_(fault) {}
    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    void all_reduce_sum(TensorView x, const char* label) override {
        if (!hit(label)) return inner_->all_reduce_sum(x, label);
        if (fault_ == CommFault::skip) return;
        if (fault_ == CommFault::one_less && rank() == 1) std::memset(x.data(), 0, x.bytes());
        inner_->all_reduce_sum(x, label);
        if (fault_ == CommFault::twice) inner_->all_reduce_sum(x, label);
    }
    void all_reduce_max(TensorView x, const char* label) override { inner_->all_reduce_max(x, label); }
    void all_gather(TensorView out, TensorView in, const char* label) override {
        if (!hit(label)) return inner_->all_gather(out, in, label);
        for (int rank = 0; rank < size(); ++rank)
            std::memcpy(static_cast<char*>(out.data()) + static_cast<std::size_t>(rank) * in.bytes(),
                        in.data(), in.bytes());
    }
    void broadcast(TensorView x, int root, const char* label) override { inner_->broadcast(x, root, label); }
    void barrier(const char* label) override { inner_->barrier(label); }
    std::unique_ptr<comm::AllReduce> make_all_reduce(TensorView x, TensorView scratch) override {
        return std::make_unique<FaultySum>(inner_->make_all_reduce(x, scratch), x, rank(), fault_);
    }
    std::int64_t all_reduce_scratch_elements(std::int64_t elements) const override {
        return inner_->all_reduce_scratch_elements(elements);
    }
    std::unique_ptr<comm::Communicator> split(int color, int key) override {
        return inner_->split(color, key);
    }

 private:
    bool hit(const char* label) const { return std::string(label).starts_with(label_); }

    std::unique_ptr<comm::Communicator> inner_;
    std::string label_;
    CommFault fault_;
};

}  // namespace

std::unique_ptr<comm::Communicator> faulty(std::unique_ptr<comm::Communicator> inner,
                                           const std::string& label, CommFault fault) {
    if (!inner) return nullptr;
    return std::make_unique<FaultyCommunicator>(std::move(inner), label, fault);
}

}  // namespace escalier::train
