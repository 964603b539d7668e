#include "comm/watchdog.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
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

std::string seconds(double s) {
    return std::to_string(std::lround(s)) + " s";
}

std::string what(const RankReport& report) {
    std::string text = std::string("\"").append(report.label).append("\"");
    if (report.peer >= 0) text += " from rank " + std::to_string(report.peer);
    return text;
}

}  // namespace

bool some_rank_works(int rank, const std::vector<SeenReport>& seen, double silent_after_s) {
    bool works = false;
    for (std::size_t r = 0; r < seen.size(); ++r) {
        if (static_cast<int>(r) == rank) continue;
        if (seen[r].seen_s < 0 || seen[r].seen_s > silent_after_s) return false;
        works |= seen[r].report.waiting_s < 0;
    }
    return works;
}

std::string timeout_message(int rank, const RankReport& own, double timeout_s,
                            const std::vector<SeenReport>& seen, double silent_after_s) {
    constexpr int listed = 8;
    std::string message = "rank " + std::to_string(rank) + " (" + own.host + ") has waited " +
                          seconds(own.waiting_s) + " for " + what(own) +
                          ", longer than run.comm_timeout_s = " + seconds(timeout_s) + ".";
    std::string silent, busy;
    int silent_count = 0, busy_count = 0;
    for (std::size_t r = 0; r < seen.size(); ++r) {
        if (static_cast<int>(r) == rank) continue;
        const RankReport& report = seen[r].report;
        const std::string name = "\n  rank " + std::to_string(r) + " (" + report.host + ")";
        if (seen[r].seen_s < 0) {
            if (silent_count++ < listed) silent += "\n  rank " + std::to_string(r) + " has never reported";
        } else if (seen[r].seen_s > silent_after_s) {
            if (silent_count++ < listed)
                silent += name + " has been silent for " + seconds(seen[r].seen_s) + "; it was " +
                          (report.waiting_s >= 0 ? "waiting for " : "past its wait for ") + what(report);
        } else if (report.waiting_s < 0) {
            if (busy_count++ < listed)
                busy += name + " is alive and works; its last wait was " + what(report);
        }
    }
    if (silent_count) message += " Ranks that stopped answering: " + std::to_string(silent_count) + silent;
    if (!silent_count && busy_count)
        message += " No rank is silent. Not waiting: " + std::to_string(busy_count) + busy;
    if (!silent_count && !busy_count) message += " All ranks answer, and all of them wait.";
    return message +
           "\nLook for a stopped, swapping or overloaded process there, or raise run.comm_timeout_s.";
}

Watchdog::Watchdog(MPI_Comm world, const std::string& host, double delay_s,
                   std::function<void(const std::string&)> on_timeout)
    : delay_s_(delay_s), on_timeout_(std::move(on_timeout)) {
    check_mpi(MPI_Comm_dup(world, &comm_), "MPI_Comm_dup");
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
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

void Watchdog::set_timeout(double timeout_s) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        timeout_s_ = timeout_s;
    }
    wake_.notify_one();
}

void Watchdog::enter(const char* label, int peer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (depth_++) return;
    since_ = now_seconds();
    current_.peer = peer;
    copy_text(current_.label, sizeof current_.label, label);
}

void Watchdog::leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --depth_;
}

RankReport Watchdog::own_report() {
    const std::lock_guard<std::mutex> lock(mutex_);
    RankReport report = current_;
    report.waiting_s = depth_ ? now_seconds() - since_ : -1;
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
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        timeout_s = timeout_s_;
    }
    if (own.waiting_s <= timeout_s + delay_s_) return;
    std::vector<SeenReport> seen(reports_.size());
    for (std::size_t r = 0; r < seen.size(); ++r)
        seen[r] = {reports_[r], seen_at_[r] < 0 ? -1 : now - seen_at_[r]};
    const double silent_after_s = std::min(3.0, 0.5 * timeout_s);
    if (some_rank_works(rank_, seen, silent_after_s) &&
        own.waiting_s <= working_factor * timeout_s + delay_s_)
        return;
    on_timeout_(timeout_message(rank_, own, timeout_s, seen, silent_after_s));
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
