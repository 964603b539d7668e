#include "device/arena.h"

#include <utility>

namespace escalier::device {

namespace {

std::size_t aligned(std::size_t bytes) {
    return (bytes + Arena::alignment - 1) / Arena::alignment * Arena::alignment;
}

}  // namespace

Arena::Arena(std::string name) : name_(std::move(name)) {}

Arena::Arena(std::string name, Allocator& allocator, std::size_t capacity)
    : name_(std::move(name)), allocator_(&allocator), capacity_(capacity) {
    if (capacity_) memory_ = static_cast<char*>(allocator.allocate(capacity_, name_));
}

Arena::~Arena() {
    if (memory_) allocator_->free(memory_, capacity_);
}

Arena::Arena(Arena&& other) noexcept
    : name_(std::move(other.name_)),
      allocator_(other.allocator_),
      memory_(std::exchange(other.memory_, nullptr)),
      capacity_(other.capacity_),
      used_(other.used_) {}

TensorView Arena::take(DType dtype, Shape shape) {
    const std::size_t bytes = aligned(static_cast<std::size_t>(shape.elements()) * size_of(dtype));
    char* data = nullptr;
    if (!measuring()) {
        ESCALIER_CHECK(used_ + bytes <= capacity_, "arena " + name_ + " is full");
        data = memory_ + used_;
    }
    used_ += bytes;
    return TensorView(data, dtype, shape);
}

Arenas Arenas::measuring() {
    return {Arena("parameters"),  Arena("prepared weights"), Arena("gradients"), Arena("optimizer"),
            Arena("activations"), Arena("communication"),    Arena("workspace"), Arena("data"),
            Arena("host"),        Arena("staging")};
}

Arenas Arenas::allocated(const Arenas& measured, Allocator& allocator, Allocator& host_allocator) {
    const auto make = [&](const Arena& arena) { return Arena(arena.name(), allocator, arena.used()); };
    return {make(measured.parameters),
            make(measured.prepared_weights),
            make(measured.gradients),
            make(measured.optimizer),
            make(measured.activations),
            make(measured.communication),
            make(measured.workspace),
            make(measured.data),
            Arena(measured.host.name(), host_allocator, measured.host.used()),
            Arena(measured.staging.name(), host_allocator, measured.staging.used())};
}

std::vector<ArenaSize> Arenas::sizes() const {
    std::vector<ArenaSize> sizes;
    for (const Arena* arena : {&parameters, &prepared_weights, &gradients, &optimizer, &activations,
                               &communication, &workspace, &data, &host, &staging})
        sizes.push_back({arena->name(), arena->used(), arena == &host || arena == &staging});
    return sizes;
}

std::size_t Arenas::used() const {
    std::size_t bytes = 0;
    for (const ArenaSize& arena : sizes()) bytes += arena.bytes;
    return bytes;
}

}  // namespace escalier::device
