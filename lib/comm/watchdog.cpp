#include "comm/watchdog.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/mpi_check.h"
#include "core/clock.h"

namespace escalier::comm {

namespace {

void copy_text(char* to, std::size_t capacity, const char* from) {
    std::strncpy(to, from ? from : "", capacity - 1);
    to[capacity - 1] = '\0';
}

}  // namespace

Watchdog::Watchdog(MPI_Comm world, const std::string& host, double delay_s, std::vector<Activity*> activities,
                   std::function<void(const std::string&)> on_timeout)
    : delay_s_(delay_s), activities_(std::move(activities)), on_timeout_(std::move(on_timeout)) {
    check_mpi(MPI_Comm_dup(world, &comm_), "MPI_Comm_dup");
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    activity_ = activities_[static_cast<std::size_t>(rank_)];
    copy_text(current_.host, sizeof current_.host, host.c_str());
    const auto ranks = static_cast<std::size_t>(size_);
    outgoing_.resize(ranks);
    sends_.assign(ranks, MPI_REQUEST_NULL);
    reports_.resize(ranks);
    seen_at_.assign(ranks, -1);
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "watchdog");
}

Watchdog::~Watchdog() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
    receive_reports(0);  // what still lies here would keep a peer's send open
    for (MPI_Request& send : sends_)
        if (send != MPI_REQUEST_NULL) MPI_Request_free(&send);
    MPI_Comm_free(&comm_);
}

void Watchdog::set_timeout(double timeout_s, const std::string& setting) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        timeout_s_ = timeout_s;
        setting_ = setting;
    }
    wake_.notify_one();
}

double Watchdog::timeout_s() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return timeout_s_;
}

void Watchdog::enter(const char* label, const RankSet& awaited) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (depth_++) return;
    activity_->set_waiting(true);
    since_ = now_seconds();
    current_.awaited = awaited;
    copy_text(current_.label, sizeof current_.label, label);
}

void Watchdog::leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--depth_ == 0) activity_->set_waiting(false);
}

RankReport Watchdog::own_report() {
    const std::lock_guard<std::mutex> lock(mutex_);
    RankReport report = current_;
    report.waiting_s = depth_ ? now_seconds() - since_ : -1;
    report.activity = activity_->report();
    return report;
}

void Watchdog::send_reports(const RankReport& own) {
    for (int r = 0; r < size_; ++r) {
        const auto i = static_cast<std::size_t>(r);
        if (r == rank_) continue;
        int sent = 1;
        if (sends_[i] != MPI_REQUEST_NULL) MPI_Test(&sends_[i], &sent, MPI_STATUS_IGNORE);
        if (!sent) continue;  // a rank that takes no messages gets one, not many
        outgoing_[i] = own;
        MPI_Isend(&outgoing_[i], sizeof(RankReport), MPI_BYTE, r, 0, comm_, &sends_[i]);
    }
}

void Watchdog::receive_reports(double now) {
    for (int arrived = 1; arrived;) {
        MPI_Status status;
        if (MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &arrived, &status) != MPI_SUCCESS || !arrived) return;
        const auto i = static_cast<std::size_t>(status.MPI_SOURCE);
        MPI_Recv(&reports_[i], sizeof(RankReport), MPI_BYTE, status.MPI_SOURCE, 0, comm_, MPI_STATUS_IGNORE);
        seen_at_[i] = now;
    }
}

void Watchdog::tick() {
    const double now = now_seconds();
    const RankReport own = own_report();
    receive_reports(now);
    send_reports(own);
    double timeout_s;
    std::string setting;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        timeout_s = timeout_s_;
        setting = setting_;
    }
    if (own.waiting_s <= timeout_s + delay_s_) return;
    std::vector<SeenReport> seen(reports_.size());
    for (std::size_t r = 0; r < seen.size(); ++r) {
        seen[r] = {reports_[r], seen_at_[r] < 0 ? -1 : now - seen_at_[r]};
        if (!activities_[r]) continue;
        seen[r].report.activity = activities_[r]->report();
        seen[r].knows_present = true;
    }
    seen[static_cast<std::size_t>(rank_)] = {own, 0, true};
    const double silent_after_s = std::min(3.0, 0.5 * timeout_s);
    if (some_rank_works(rank_, seen, silent_after_s) &&
        own.waiting_s <= working_factor * timeout_s + delay_s_)
        return;
    on_timeout_(timeout_message(rank_, timeout_s, seen, silent_after_s, setting));
}

void Watchdog::run() {
    for (;;) {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            const double interval = std::clamp(timeout_s_ / 10, 0.05, 1.0);
            wake_.wait_for(lock, std::chrono::duration<double>(interval), [&] { return stop_; });
            if (stop_) return;
        }
        if (size_ > 1) tick();
    }
}

}  // namespace escalier::comm
