// A thread that runs one task at a time; its name is "writer".
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace escalier::checkpoint {

// When a task ran, in seconds of core/clock.h.
struct TaskTime {
    double start = 0;
    double end = 0;  // of one under way: the present
};

class WriterThread {
 public:
    WriterThread();
    ~WriterThread();  // waits for the task under way
    WriterThread(const WriterThread&) = delete;
    WriterThread& operator=(const WriterThread&) = delete;

    // Only when idle.
    void start(std::function<void()> task);
    // Whether the last task has ended, waiting up to so many seconds for that.
    bool idle(double seconds = 0);
    // What the last task threw, once idle; null: nothing.
    std::exception_ptr failure();
    // The last few tasks, in no order.
    std::vector<TaskTime> recent();

 private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> task_;
    std::exception_ptr failure_;
    std::array<TaskTime, 8> recent_;
    std::size_t started_ = 0;  // tasks ever
    bool busy_ = false;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace escalier::checkpoint
