// The figures of a run that go to TensorBoard and Prometheus. Rank 0 only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/job_spec.h"
#include "report/event_file.h"
#include "report/metrics_endpoint.h"
#include "train/metrics.h"

namespace escalier::train {

class RunFigures {
 public:
    // Opens the endpoint, if the spec asks for one.
    explicit RunFigures(const config::JobSpec& spec);
    // Opens an event file in the run's folder, if the spec asks for one. first_step: of this process.
    void open(const std::string& folder, std::int64_t first_step);

    void step(const StepReport& report);
    void eval(std::int64_t step, double loss);
    void checkpoint(std::int64_t step);

 private:
    void show(const StepReport& report);

    config::LogConfig config_;
    std::optional<report::EventFile> events_;
    std::optional<report::MetricsEndpoint> endpoint_;
};

}  // namespace escalier::train
