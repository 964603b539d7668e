#include "report/metrics_endpoint.h"

#include <arpa/inet.h>
#include <prometheus/exposer.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <tuple>

#include "core/error.h"

namespace escalier::report {

namespace {

// Why the port cannot be had; empty: it can.
std::string port_problem(int port) {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return std::strerror(errno);
    const int yes = 1;  // as the server does: what is left of connections that ended is no obstacle
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string problem;
    if (bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(descriptor, 1) != 0)
        problem = std::strerror(errno);
    close(descriptor);
    return problem;
}

[[noreturn]] void refuse(int port, const std::string& problem) {
    throw ConfigError("log.prometheus_port: found " + std::to_string(port) +
                      ", which cannot be opened on 127.0.0.1 (" + problem +
                      "). Give a port that is free, or 0 for none.");
}

}  // namespace

struct MetricsEndpoint::State {
    std::string run_name;
    std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
    std::map<std::string, prometheus::Family<prometheus::Gauge>*> families;
    std::map<std::tuple<std::string, std::string, std::string>, prometheus::Gauge*> gauges;
    std::optional<prometheus::Exposer> exposer;  // last: it reads the registry
};

MetricsEndpoint::MetricsEndpoint(int port, const std::string& run_name) : state_(std::make_unique<State>()) {
    state_->run_name = run_name;
    if (const std::string problem = port_problem(port); !problem.empty()) refuse(port, problem);
    // Signals are for the main thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::string problem;
    try {
        state_->exposer.emplace("127.0.0.1:" + std::to_string(port), 2);
        state_->exposer->RegisterCollectable(state_->registry);
    } catch (const std::exception& error) {
        problem = error.what();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!problem.empty()) refuse(port, problem);
}

MetricsEndpoint::~MetricsEndpoint() = default;

void MetricsEndpoint::set(const std::string& name, const std::string& help, double value,
                          const std::string& rank, const std::string& part) {
    prometheus::Gauge*& gauge = state_->gauges[{name, rank, part}];
    if (!gauge) {
        prometheus::Family<prometheus::Gauge>*& family = state_->families[name];
        if (!family)
            family = &prometheus::BuildGauge()
                          .Name("escalier_" + name)
                          .Help(help)
                          .Labels({{"run", state_->run_name}})
                          .Register(*state_->registry);
        std::map<std::string, std::string> labels;
        if (!rank.empty()) labels["rank"] = rank;
        if (!part.empty()) labels["part"] = part;
        gauge = &family->Add(labels);
    }
    gauge->Set(value);
}

}  // namespace escalier::report
