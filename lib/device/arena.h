// Named arenas: all memory of the step loop is taken from them before step 1, and nothing after.
//
// An arena is first used without memory: components take their tensors and it only counts. The same calls on
// an arena with memory then hand out the views. `plan` and `train` thus size memory by the same code.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/tensor_view.h"

namespace escalier::device {

// Where an arena's memory comes from.
class Allocator {
 public:
    virtual ~Allocator() = default;
    // Zero-filled, aligned to Arena::alignment at least. Throws DeviceError naming bytes and arena.
    virtual void* allocate(std::size_t bytes, const std::string& what) = 0;
    virtual void free(void* memory, std::size_t bytes) noexcept = 0;
};

class Arena {
 public:
    static constexpr std::size_t alignment = 256;  // bytes; reduction order must not depend on an address

    // A measuring arena: take() returns views without data and counts.
    explicit Arena(std::string name);
    // An arena of `capacity` bytes.
    Arena(std::string name, Allocator& allocator, std::size_t capacity);
    ~Arena();
    Arena(Arena&& other) noexcept;
    Arena& operator=(Arena&&) = delete;

    // The next tensor, aligned. Throws InternalError when the capacity is exceeded.
    TensorView take(DType dtype, Shape shape);

    const std::string& name() const { return name_; }
    std::size_t used() const { return used_; }  // bytes, the alignment gaps included
    bool measuring() const { return allocator_ == nullptr; }

 private:
    std::string name_;
    Allocator* allocator_ = nullptr;
    char* memory_ = nullptr;
    std::size_t capacity_ = 0;
    std::size_t used_ = 0;
};

struct ArenaSize {
    std::string name;
    std::size_t bytes = 0;
    bool host = false;  // in memory of the host, whatever the device
};

// The arenas of one rank, in the order in which `plan` lists them.
struct Arenas {
    Arena parameters;
    Arena prepared_weights;
    Arena gradients;
    Arena optimizer;
    Arena activations;
    Arena communication;
    Arena workspace;
    Arena data;
    Arena host;     // what the host fills and reads
    Arena staging;  // host memory: what an asynchronous save writes

    static Arenas measuring();
    // Arenas with exactly the capacities that a measuring run used. host_allocator: of the arena `host`.
    static Arenas allocated(const Arenas& measured, Allocator& allocator, Allocator& host_allocator);
    std::size_t used() const;              // bytes of all of them
    std::vector<ArenaSize> sizes() const;  // what each of them has handed out
};

}  // namespace escalier::device
