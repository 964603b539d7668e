// A thread that runs one task at a time; its name is "writer".
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace escalier::checkpoint {

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

 private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> task_;
    std::exception_ptr failure_;
    bool busy_ = false;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace escalier::checkpoint
