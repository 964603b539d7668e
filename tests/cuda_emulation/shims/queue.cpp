#include "cuda_emulation/shims/queue.h"

#include <algorithm>
#include <utility>

namespace escalier::cuda_emulation {

Queues& Queues::get() {
    static auto* queues =
        new Queues;  // never destroyed: other threads may be in a call when the process ends
    return *queues;
}

Random& Queues::random() {
    if (seeded_with_ != seed()) {
        seeded_with_ = seed();
        random_ = Random(seeded_with_);
    }
    return random_;
}

CUstream_st* Queues::create_stream(int device, bool blocking) {
    streams_.push_back(std::make_unique<CUstream_st>());
    streams_.back()->device = device;
    streams_.back()->blocking = blocking;
    return streams_.back().get();
}

void Queues::destroy_stream(CUstream_st* stream) {
    stream->destroyed = true;
    if (stream->operations.empty())
        std::erase_if(streams_, [&](const auto& owned) { return owned.get() == stream; });
}

CUstream_st& Queues::default_stream(int device) {
    const auto index = static_cast<std::size_t>(device);
    if (default_streams_.size() <= index) default_streams_.resize(index + 1);
    if (!default_streams_[index]) default_streams_[index] = create_stream(device, true);
    return *default_streams_[index];
}

CUstream_st* Queues::find(cudaStream_t handle, int device) {
    if (handle == nullptr || handle == cudaStreamLegacy) return &default_stream(device);
    for (const auto& stream : streams_)
        if (stream.get() == handle && !stream->destroyed) return handle;
    return nullptr;
}

void Queues::push(CUstream_st& stream, Operation operation) {
    operation.completion = std::make_shared<Completion>();
    operation.completion->stream = &stream;
    stream.operations.push_back(std::move(operation));
}

// The default stream waits for all blocking streams of its device, and they for it.
void Queues::follow_default_stream(CUstream_st& stream) {
    if (!stream.blocking) return;
    CUstream_st& main = default_stream(stream.device);
    const auto follow = [&](CUstream_st& first, CUstream_st& second) {
        if (first.operations.empty()) return;
        push(second, {[] { return Progress::done; }, first.operations.back().completion, nullptr});
    };
    if (&stream != &main) return follow(main, stream);
    for (const auto& other : streams_)
        if (other.get() != &main && other->blocking && other->device == main.device) follow(*other, main);
}

void Queues::submit(CUstream_st& stream, Work work) {
    if (stream.capture) return capture_work(stream, std::move(work));
    follow_default_stream(stream);
    push(stream, {std::move(work), nullptr, nullptr});
    if (seed() != 0 && random().below(8) == 0)
        for (std::uint32_t pieces = random().below(4); pieces > 0; --pieces) run_any();
}

void Queues::wait_for(CUstream_st& stream, std::shared_ptr<Completion> completion) {
    follow_default_stream(stream);
    push(stream, {[] { return Progress::done; }, std::move(completion), nullptr});
}

std::shared_ptr<Completion> Queues::record(CUstream_st& stream) {
    follow_default_stream(stream);
    push(stream, {[] { return Progress::done; }, nullptr, nullptr});
    return stream.operations.back().completion;
}

Progress Queues::run_first(CUstream_st& stream) {
    if (stream.busy || stream.operations.empty()) return Progress::waiting;
    Operation& operation = stream.operations.front();
    if (operation.awaited && !operation.awaited->done) return Progress::waiting;
    stream.busy = true;
    const Progress progress = operation.work();
    stream.busy = false;
    if (progress != Progress::done) return progress;
    operation.completion->done = true;
    operation.completion->time = std::chrono::steady_clock::now();
    stream.operations.pop_front();
    if (stream.destroyed && stream.operations.empty()) destroy_stream(&stream);
    return progress;
}

bool Queues::run_any() {
    // Work may create and destroy streams of other threads' while it runs without the lock: so by index.
    const std::size_t count = streams_.size();
    const std::size_t first = count ? random()() % count : 0;
    for (std::size_t i = 0; i < count && !streams_.empty(); ++i)
        if (run_first(*streams_[(first + i) % streams_.size()]) != Progress::waiting) return true;
    return false;
}

// The stream whose first operation has to run for `target` to go on.
CUstream_st* Queues::needed(CUstream_st* target) const {
    while (target && !target->operations.empty()) {
        const std::shared_ptr<Completion>& awaited = target->operations.front().awaited;
        if (!awaited || awaited->done) return target;
        target = awaited->stream;
    }
    return nullptr;
}

void Queues::finish(Lock& lock, CUstream_st* target, const std::function<bool()>& done) {
    current_lock_ = &lock;
    const bool lazy = seed() == 0 || random().below(2) == 0;
    for (int idle_rounds = 0; !done();) {
        CUstream_st* first = lazy ? needed(target) : nullptr;
        if ((first && run_first(*first) != Progress::waiting) || run_any()) {
            idle_rounds = 0;
            current_lock_ = &lock;
            continue;
        }
        lock.unlock();
        if (++idle_rounds < 50)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        lock.lock();
        current_lock_ = &lock;
    }
}

void Queues::poke(Lock& lock, CUstream_st* target) {
    current_lock_ = &lock;
    if (seed() == 0) {
        CUstream_st* first = needed(target);
        if (!first || run_first(*first) == Progress::waiting) run_any();
    } else if (random().below(4) != 0) {
        for (std::uint32_t pieces = 1 + random().below(4); pieces > 0 && run_any(); --pieces)
            current_lock_ = &lock;
    }
}

bool Queues::idle(int device) const {
    return std::all_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
        return stream->device != device || stream->operations.empty();
    });
}

void Queues::finish_device(Lock& lock, int device) {
    finish(lock, nullptr, [&] { return idle(device); });
}

void Queues::without_lock(const std::function<void()>& call) {
    Lock* held = current_lock_;
    if (held) held->unlock();
    call();
    if (held) held->lock();
    current_lock_ = held;
}

void Queues::start_background() {
    if (background_users_++ == 0) background_ = std::thread([this] { background(); });
}

void Queues::stop_background() {
    std::thread ended;
    {
        Lock held(mutex_);
        if (--background_users_ == 0) ended = std::move(background_);
    }
    if (ended.joinable()) ended.join();
}

void Queues::background() {
    constexpr auto pause = std::chrono::milliseconds(2), quiet = std::chrono::milliseconds(10);
    for (;;) {
        std::this_thread::sleep_for(pause);
        Lock held(mutex_);
        if (background_users_ == 0) return;
        if (std::chrono::steady_clock::now() - last_call_ < quiet) continue;
        current_lock_ = &held;
        while (run_any()) current_lock_ = &held;
    }
}

}  // namespace escalier::cuda_emulation
