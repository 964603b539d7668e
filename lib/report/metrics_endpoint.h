// Figures of the run for Prometheus: http://127.0.0.1:PORT/metrics, in the text format that it scrapes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace escalier::report {

class MetricsEndpoint {
 public:
    // Answers on the loopback interface alone, from a thread of its own. Throws ConfigError naming
    // log.prometheus_port when the port cannot be had.
    MetricsEndpoint(int port, const std::string& run_name);
    ~MetricsEndpoint();

    // A gauge escalier_<name>; NaN where it is not known. rank and part: labels, empty ones are left out.
    void set(const std::string& name, const std::string& help, double value, const std::string& rank = "",
             const std::string& part = "");

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::report
