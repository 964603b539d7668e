// Which GPU a rank gets.
#pragma once

#include <string>
#include <vector>

namespace escalier::device {

// What CUDA calls depend on and reads once, when it starts; to be called before anything else of CUDA.
void set_cuda_defaults(bool several_ranks);

// Why no GPU can be used from this process; empty where one can.
std::string cuda_problem();
int visible_devices();               // with cuda_problem() empty
std::string device_uuid(int index);  // as nvidia-smi writes it

// The visible device of a rank of its node: in order, round and round where ranks outnumber devices, as they
// do where each rank was given a device of its own to see.
constexpr int device_of_rank(int local_rank, int visible) {
    return local_rank % visible;
}

// What the ranks tell one another of their choice.
struct DeviceChoice {
    std::string host;
    std::string device;  // unique over all hosts: its UUID
    int index = 0;       // among the visible ones of the rank
    int visible = 1;     // devices that the rank sees
};

// How many devices the ranks use.
int distinct_devices(const std::vector<DeviceChoice>& ranks);
// How many ranks use the most used device.
int most_sharers(const std::vector<DeviceChoice>& ranks);
// What is wrong with ranks that share a device although run.share_gpu is false; empty where none do.
std::string sharing_problem(const std::vector<DeviceChoice>& ranks);

}  // namespace escalier::device
