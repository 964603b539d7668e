#include "config/device_rules.h"

#include "config/rule_book.h"

namespace escalier::config {

namespace {

class DeviceRules : RuleBook {
 public:
    DeviceRules(Job& job, Problems& problems) : RuleBook(job, problems) {}

    void run() {
        if (!sound({"run.device"})) return;
        if (spec_.run.device == "cpu") cpu();
        if (spec_.run.device == "cuda") cuda();
    }

 private:
    void cpu() {
        std::string& comm = spec_.run.comm;
        require(comm == "auto" || comm == "mpi", {"run.comm", "run.device"},
                "found " + comm +
                    ", which moves tensors between GPUs, beside run.device cpu; wanted auto or mpi");
        if (comm == "auto") comm = "mpi";
        std::string& dtype = spec_.train.dtype;
        require(dtype != "bf16", {"train.dtype", "run.device"},
                "found bf16, but run.device cpu computes in fp32 alone: a CPU's bf16 products are no faster "
                "than its "
                "fp32 ones; wanted auto or fp32, or run.device: cuda");
        if (dtype == "auto") dtype = "fp32";
    }

    void cuda() {
        require(spec_.run.clock == "real", {"run.clock", "run.device"},
                "found " + spec_.run.clock +
                    ", which lets processes sleep, and a GPU's work is not theirs; wanted real, or "
                    "run.device: cpu");
        require(
            spec_.run.comm != "mpi", {"run.comm", "run.device"},
            "found mpi, which moves host memory alone, beside run.device cuda; wanted auto, nccl or staged");
        if (spec_.train.dtype == "auto") spec_.train.dtype = "bf16";
    }
};

}  // namespace

void apply_device_rules(Job& job, Problems& problems) {
    DeviceRules(job, problems).run();
}

JobSpec on_device(const JobSpec& spec, const std::string& device, const std::string& comm) {
    Job job{spec};
    job.spec.run.device = device;
    Problems problems;
    apply_device_rules(job, problems);
    problems.throw_if_any();
    job.spec.run.comm = comm;
    return job.spec;
}

}  // namespace escalier::config
