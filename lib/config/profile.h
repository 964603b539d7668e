// What the parts of a model take on one rank of a machine: measured by `escalier plan --measure`, which
// writes it as YAML. Layouts and predictions are made from it.
#pragma once

#include <cstdint>
#include <string>

#include "config/fields.h"
#include "config/yaml_file.h"

namespace escalier::config {

// Seconds of one micro-batch on one tensor rank. The exchanges are sums over the tensor group and part of the
// times beside them.
struct PartTimes {
    double forward = 0;
    double backward = 0;        // input and weight half in one action
    double input_gradient = 0;  // the halves apart
    double weight_gradient = 0;
    double forward_exchange = 0;
    double backward_exchange = 0;  // within the input half

    bool operator==(const PartTimes&) const = default;
};

struct ModelTimes {
    PartTimes embedding, layer, head;  // of one layer; the head does all its work in F
    // What recompute does again of a layer, within the input half.
    double attention_again = 0;
    double layer_again = 0;
    double layer_again_exchange = 0;
    double message = 0;  // seconds from one stage to the next, of one micro-batch's activations
    // Seconds per element of this rank's parameters.
    double optimizer = 0;
    double norm = 0;
    double reduction = 0;   // sum of gradients over the data-parallel replicas
    double remote_tie = 0;  // sum of the tied embedding's gradients over two ranks
    double local_tie = 0;   // the same on one rank
    double data = 0;        // seconds per micro-batch: finding and reading its samples
    double step = 0;        // seconds per step: whatever does not grow with the model

    bool operator==(const ModelTimes&) const = default;
};

struct Profile {
    struct Machine {
        std::string processor;
        std::int64_t cores = 1;    // of the node
        std::int64_t ranks = 1;    // that measured at once
        std::int64_t threads = 1;  // per rank
    };
    struct Sizes {
        std::int64_t tp = 1;
        std::int64_t micro_batch = 1;
        std::int64_t seq_len = 1;
        std::string dtype = "fp32";
    };
    std::int64_t version = 1;
    Machine machine;
    Sizes sizes;
    ModelConfig model;  // resolved
    ModelTimes times;
};

void fields(FieldTable& table, PartTimes& config);
void fields(FieldTable& table, ModelTimes& config);
void fields(FieldTable& table, Profile::Machine& config);
void fields(FieldTable& table, Profile::Sizes& config);
void fields(FieldTable& table, Profile& config);

std::string dump(const Profile& profile);

// Throws ConfigError with every fault of the file, each with its place.
Profile parse_profile(const YamlFile& file);

// Throws ConfigError naming the first key that differs unless the profile was measured for this model and
// these shapes. spec: resolved, but for the layout. `file` stands in the message.
void require_same_work(const Profile& profile, const JobSpec& spec, const std::string& file);

}  // namespace escalier::config
