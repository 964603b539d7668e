#include "device/planned_device.h"

#include <utility>

#include "core/error.h"

namespace escalier::device {

namespace {

[[noreturn]] void refuse() {
    throw InternalError("a planned device was asked to work");
}

class NoMemory final : public Allocator {
 public:
    void* allocate(std::size_t, const std::string&) override { refuse(); }
    void free(void*, std::size_t) noexcept override {}
};

class PlannedDevice final : public Device {
 public:
    explicit PlannedDevice(std::string description) : description_(std::move(description)) {}

    std::string description() const override { return description_; }
    bool is_host() const override { return false; }
    Allocator& allocator() override { return memory_; }
    Allocator& host_allocator() override { return memory_; }
    void copy_to_host(void*, const void*, std::size_t) override { refuse(); }
    void copy_from_host(void*, const void*, std::size_t) override { refuse(); }
    void upload(void*, const void*, std::size_t) override { refuse(); }
    void download(void*, const void*, std::size_t) override { refuse(); }
    bool idle() override { refuse(); }
    void synchronize() override { refuse(); }
    OpContext op_context(ComputePool& pool, void* scratch, std::size_t bytes) override {
        return OpContext(pool, scratch, bytes);
    }
    int mark() override { refuse(); }
    void reserve_marks(std::size_t) override {}
    double seconds(int) override { refuse(); }
    void clear_marks() override { refuse(); }
    bool progressed() override { refuse(); }
    void begin_range(const char*) override {}
    void end_range() override {}
    std::unique_ptr<Graph> capture(const std::function<void()>&) override { refuse(); }

 private:
    std::string description_;
    NoMemory memory_;
};

}  // namespace

std::unique_ptr<Device> make_planned_device(std::string description) {
    return std::make_unique<PlannedDevice>(std::move(description));
}

}  // namespace escalier::device
