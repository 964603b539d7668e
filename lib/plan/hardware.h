// What a machine can do, as the files of configs/hardware say, for predictions without it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.h"
#include "config/yaml_file.h"

namespace escalier::plan {

inline constexpr double most_memory_gib = 1 << 20;  // of one device; in bytes it fits 64 bits

struct Hardware {
    struct Peak {  // TFLOP/s of one device, dense
        double fp32 = 0, bf16 = 0;
    };
    struct Memory {
        double gib = 0;           // of one device
        double reserved_gib = 0;  // of it, what libraries and the driver take
        double gb_per_s = 0;      // 1e9 bytes
    };
    struct Node {
        std::int64_t gpus = 1;  // devices
    };
    struct Link {  // of one device to others, each way
        double gb_per_s = 0;
        double latency_us = 0;
    };
    // Shares of the figures above that are reached.
    struct Efficiency {
        double matmul = 1, attention = 1;  // of peak
        double memory = 1;
        double link = 1;
    };
    std::string name;
    Peak peak;
    Memory memory;
    Node node;
    Link inside, between;  // a node
    Efficiency efficiency;
    std::string source;  // where the figures come from

    double peak_flops(const std::string& dtype) const {
        return 1e12 * (dtype == "bf16" ? peak.bf16 : peak.fp32);
    }
    double matmul_flops(const std::string& dtype) const { return efficiency.matmul * peak_flops(dtype); }
    double attention_flops(const std::string& dtype) const {
        return efficiency.attention * peak_flops(dtype);
    }
    double memory_bytes_per_s() const { return 1e9 * efficiency.memory * memory.gb_per_s; }
    bool is_gpu() const { return peak.bf16 > peak.fp32; }  // as far as types of computing go
    // What a plan may use of one device.
    double usable_bytes() const { return (memory.gib - memory.reserved_gib) * 1024 * 1024 * 1024; }
};

void fields(config::FieldTable& table, Hardware::Peak& config);
void fields(config::FieldTable& table, Hardware::Memory& config);
void fields(config::FieldTable& table, Hardware::Node& config);
void fields(config::FieldTable& table, Hardware::Link& config);
void fields(config::FieldTable& table, Hardware::Efficiency& config);
void fields(config::FieldTable& table, Hardware& config);

// The names of configs/hardware.
std::vector<std::string> hardware_names();

// One of them. Throws ConfigError, with the nearest one, for another name.
Hardware built_in_hardware(std::string_view name);

// Throws ConfigError with every fault of the file, each with its place. Every key is needed.
Hardware parse_hardware(const config::YamlFile& file);

}  // namespace escalier::plan
