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
    moved();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--depth_ == 0) activity_->set_waiting(false);
}

void Watchdog::moved() {
    moves_.fetch_add(1, std::memory_order_relaxed);
}

RankReport Watchdog::own_report() {
    const std::lock_guard<std::mutex> lock(mutex_);
    RankReport report = current_;
    report.waiting_s = depth_ ? now_seconds() - since_ : -1;
    report.moves = moves_.load(std::memory_order_relaxed);
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
        const std::uint64_t moves = reports_[i].moves;
        MPI_Recv(&reports_[i], sizeof(RankReport), MPI_BYTE, status.MPI_SOURCE, 0, comm_, MPI_STATUS_IGNORE);
        seen_at_[i] = now;
        if (reports_[i].moves != moves) worked_at_ = now;
    }
}

// A job that was suspended as a whole has waited for nobody in that time.
void Watchdog::pass_over_gap(double now, double interval_s) {
    constexpr double usual = 5;  // intervals between two looks on a busy machine, at most
    const double gap = now - std::exchange(ticked_at_, now) - interval_s;
    if (gap < usual * interval_s) return;
    for (double& seen_at : seen_at_)
        if (seen_at >= 0) seen_at = std::min(seen_at + gap, now);
    const std::lock_guard<std::mutex> lock(mutex_);
    since_ = std::min(since_ + gap, now);
}

void Watchdog::tick(double interval_s) {
    const double now = now_seconds();
    pass_over_gap(now, interval_s);
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
    // Reports are of different instants: where one rank hands over to another, all of them may seem to wait.
    const double grace_s = 3 * interval_s;
    const double late_s = own.waiting_s - timeout_s - delay_s_;
    if (late_s <= -2 * grace_s) return;
    std::vector<SeenReport> seen(reports_.size());
    for (std::size_t r = 0; r < seen.size(); ++r) {
        seen[r] = {reports_[r], seen_at_[r] < 0 ? -1 : now - seen_at_[r]};
        if (!activities_[r]) continue;
        seen[r].report.activity = activities_[r]->report();
        seen[r].knows_present = true;
    }
    seen[static_cast<std::size_t>(rank_)] = {own, 0, true};
    const double silent_after_s = std::min(3.0, 0.5 * timeout_s);
    if (some_rank_works(rank_, seen, silent_after_s)) worked_at_ = now;
    if (late_s <= 0) return;
    if (!some_rank_is_silent(rank_, seen, silent_after_s) && now - worked_at_ <= grace_s &&
        own.waiting_s <= working_factor * timeout_s + delay_s_)
        return;
    on_timeout_(timeout_message(rank_, timeout_s, seen, silent_after_s, setting));
}

void Watchdog::run() {
    ticked_at_ = now_seconds();
    for (;;) {
        double interval;
        {
            std::unique_lock<std::mutex> lock(mutex_);
            interval = std::clamp(timeout_s_ / 10, 0.05, 1.0);
            wake_.wait_for(lock, std::chrono::duration<double>(interval), [&] { return stop_; });
            if (stop_) return;
        }
        if (size_ > 1) tick(interval);
    }
}

}  // namespace escalier::comm
