#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "device/device.h"

namespace escalier::device {

namespace {

// Private pages, zero-filled by the kernel; large ones start on a huge page so that they can become huge
// pages.
class PageAllocator final : public Allocator {
 public:
    void* allocate(std::size_t bytes, const std::string& what) override {
        const std::size_t length = rounded(bytes);
        void* raw =
            mmap(nullptr, length + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (raw == MAP_FAILED)
            throw DeviceError("arena " + what + ": cannot allocate " + std::to_string(bytes) +
                              " bytes: " + std::strerror(errno) +
                              ". Lower train.micro_batch, or set train.recompute: full.");
        char* begin = static_cast<char*>(raw);
        char* memory = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(begin) + huge_page - 1) /
                                               huge_page * huge_page);
        if (memory != begin) munmap(begin, static_cast<std::size_t>(memory - begin));
        const std::size_t tail = static_cast<std::size_t>(begin + length + huge_page - (memory + length));
        if (tail) munmap(memory + length, tail);
        madvise(memory, bytes, MADV_HUGEPAGE);
        return memory;
    }
    void free(void* memory, std::size_t bytes) noexcept override { munmap(memory, rounded(bytes)); }

 private:
    static constexpr std::size_t huge_page = std::size_t{2} << 20;
    static constexpr std::size_t page = 4096;
    static std::size_t rounded(std::size_t bytes) { return (bytes + page - 1) / page * page; }
};

class CpuDevice final : public Device {
 public:
    std::string description() const override { return "cpu"; }
    bool is_host() const override { return true; }
    Allocator& allocator() override { return allocator_; }
    Allocator& host_allocator() override { return allocator_; }
    void copy_to_host(void* host, const void* device, std::size_t bytes) override {
        std::memcpy(host, device, bytes);
    }
    void copy_from_host(void* device, const void* host, std::size_t bytes) override {
        std::memcpy(device, host, bytes);
    }
    void upload(void* device, const void* host, std::size_t bytes) override {
        std::memcpy(device, host, bytes);
    }
    void download(void* host, const void* device, std::size_t bytes) override {
        std::memcpy(host, device, bytes);
    }
    bool idle() override { return true; }
    void synchronize() override {}
    OpContext op_context(ComputePool& pool, void* scratch, std::size_t bytes) override {
        return OpContext(pool, scratch, bytes / static_cast<std::size_t>(pool.threads()));
    }
    int mark() override {
        marks_.push_back(now_seconds());
        return static_cast<int>(marks_.size()) - 1;
    }
    void reserve_marks(std::size_t count) override { marks_.reserve(count); }
    double seconds(int mark) override { return marks_[static_cast<std::size_t>(mark)]; }
    void clear_marks() override { marks_.clear(); }
    bool progressed() override { return false; }  // nothing is ever waited for
    void begin_range(const char*) override {}
    void end_range() override {}
    std::unique_ptr<Graph> capture(const std::function<void()>&) override { return nullptr; }

 private:
    PageAllocator allocator_;
    std::vector<double> marks_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() {
    return std::make_unique<CpuDevice>();
}

}  // namespace escalier::device
