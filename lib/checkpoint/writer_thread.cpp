#include "checkpoint/writer_thread.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "core/check.h"
#include "core/clock.h"

namespace escalier::checkpoint {

WriterThread::WriterThread() {
    // Signals are for the main thread; a file size limit then is an error of the write.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread_.native_handle(), "writer");
}

WriterThread::~WriterThread() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void WriterThread::start(std::function<void()> task) {
    {
        const std::lock_guard lock(mutex_);
        ESCALIER_CHECK(!busy_, "a task before the last one has ended");
        task_ = std::move(task);
        failure_ = nullptr;
        busy_ = true;
        recent_[started_++ % recent_.size()].start = now_seconds();
    }
    changed_.notify_all();
}

bool WriterThread::idle(double seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !busy_; });
}

std::exception_ptr WriterThread::failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
}

std::vector<TaskTime> WriterThread::recent() {
    const std::lock_guard lock(mutex_);
    std::vector<TaskTime> tasks(
        recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(std::min(started_, recent_.size())));
    if (busy_) tasks[(started_ - 1) % recent_.size()].end = now_seconds();
    return tasks;
}

void WriterThread::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return busy_ || ending_; });
        if (!busy_) return;
        lock.unlock();
        std::exception_ptr failure;
        try {
            task_();
        } catch (...) {
            failure = std::current_exception();
        }
        lock.lock();
        failure_ = failure;
        task_ = nullptr;
        busy_ = false;
        recent_[(started_ - 1) % recent_.size()].end = now_seconds();
        changed_.notify_all();
    }
}

}  // namespace escalier::checkpoint
