// Ends the job when a rank has waited too long, with one message that says who waited for what and which rank
// keeps the others waiting. Once a second the ranks tell one another what they do and wait for, over a
// communicator of their own, so the message can name what a silent rank was in.
#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/timeout_message.h"

namespace escalier::comm {

class Watchdog {
 public:
    static constexpr double start_up_timeout_s = 600;
    // How many times the timeout a wait may last while all ranks answer and work gets on somewhere: a compute
    // that never ends ends the job too.
    static constexpr double working_factor = 10;

    // on_timeout gets the message, on the watchdog's thread, and ends the job. Collective over the world.
    // delay_s: how much later than the timeout this rank acts, so that one node speaks first. activities:
    // by rank, those of this node at least; null where the present one is not known. They outlive the
    // watchdog.
    Watchdog(MPI_Comm world, const std::string& host, double delay_s, std::vector<Activity*> activities,
             std::function<void(const std::string&)> on_timeout);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // setting: what the user sets it with, for the message.
    void set_timeout(double timeout_s, const std::string& setting);
    double timeout_s();

    // The main thread begins and ends a wait. Within a wait, further ones are part of it.
    void enter(const char* label, const RankSet& awaited);
    void leave();
    void moved();  // the main thread's wait is not over, but got on

 private:
    void run();
    void tick(double interval_s);
    void pass_over_gap(double now, double interval_s);
    RankReport own_report();
    void send_reports(const RankReport& own);
    void receive_reports(double now);

    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0;
    int size_ = 1;
    double delay_s_;
    std::vector<Activity*> activities_;
    Activity* activity_ = nullptr;  // this rank's
    std::function<void(const std::string&)> on_timeout_;

    std::mutex mutex_;  // guards the next block
    RankReport current_;
    int depth_ = 0;
    double since_ = 0;
    double timeout_s_ = start_up_timeout_s;
    std::string setting_ = "run.comm_timeout_s";
    bool stop_ = false;
    std::condition_variable wake_;

    std::atomic<std::uint64_t> moves_ = 0;

    std::vector<RankReport> outgoing_;  // by rank: a report stays untouched until it is sent
    std::vector<MPI_Request> sends_;
    std::vector<RankReport> reports_;
    std::vector<double> seen_at_;
    double worked_at_ = 0;  // when last a rank was seen that worked or had got on
    double ticked_at_ = 0;
    std::thread thread_;
};

class WaitScope {
 public:
    WaitScope(Watchdog& watchdog, const char* label, const RankSet& awaited = {}) : watchdog_(watchdog) {
        watchdog_.enter(label, awaited);
    }
    ~WaitScope() { watchdog_.leave(); }
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;

 private:
    Watchdog& watchdog_;
};

}  // namespace escalier::comm
