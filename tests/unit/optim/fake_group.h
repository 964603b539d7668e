// A group whose other ranks are imagined: every one of them holds exactly what this rank holds, so a sum
// multiplies by the size. Background sums finish when the test says so.
#pragma once

#include <algorithm>
#include <memory>

#include "comm/communicator.h"

namespace escalier::optim {

struct FakeTraffic {
    int under_way = 0;
    int most_under_way = 0;
    int waits = 0;
    bool finish_on_poll = true;  // false: only wait() finishes an operation
};

class FakeGroup : public comm::Communicator {
 public:
    explicit FakeGroup(int size = 1, FakeTraffic* traffic = nullptr) : size_(size), traffic_(traffic) {}

    int rank() const override { return 0; }
    int size() const override { return size_; }
    void all_reduce_sum(TensorView x, const char*) override { multiply(x, size_); }
    void all_reduce_max(TensorView, const char*) override {}
    void all_gather(TensorView, TensorView, const char*) override { unexpected(); }
    void broadcast(TensorView, int, const char*) override {}
    void barrier(const char*) override {}
    std::unique_ptr<comm::AllReduce> make_all_reduce(TensorView x, TensorView scratch) override {
        ESCALIER_CHECK(scratch.elements() == all_reduce_scratch_elements(x.elements()), "wrong scratch");
        return std::make_unique<Operation>(*this, x);
    }
    std::int64_t all_reduce_scratch_elements(std::int64_t elements) const override { return 2 * elements; }
    std::unique_ptr<comm::Communicator> split(int color, int) override {
        return color < 0 ? nullptr : std::make_unique<FakeGroup>();
    }

 private:
    class Operation : public comm::AllReduce {
     public:
        Operation(FakeGroup& group, TensorView x) : group_(group), x_(x) {}
        void start() override {
            ESCALIER_CHECK(!running_, "started twice");
            running_ = true;
            FakeTraffic& traffic = *group_.traffic_;
            traffic.most_under_way = std::max(traffic.most_under_way, ++traffic.under_way);
        }
        bool done() override {
            if (running_ && group_.traffic_->finish_on_poll) finish();
            return !running_;
        }
        void wait(const char*) override {
            ++group_.traffic_->waits;
            if (running_) finish();
        }

     private:
        void finish() {
            multiply(x_, group_.size_);
            running_ = false;
            --group_.traffic_->under_way;
        }
        FakeGroup& group_;
        TensorView x_;
        bool running_ = false;
    };

    static void multiply(TensorView x, int factor) {
        for (std::int64_t i = 0; i < x.elements(); ++i) {
            if (x.dtype() == DType::f64)
                x.as<double>()[i] *= factor;
            else
                x.as<float>()[i] *= static_cast<float>(factor);
        }
    }
    static void unexpected() { throw InternalError("the fake group does not do this"); }

    int size_;
    FakeTraffic* traffic_;
};

}  // namespace escalier::optim
