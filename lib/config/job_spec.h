// The job spec as plain structs, one per section; a module takes its own section by value. fields.h lists the
// keys, load.h reads them, validate.h resolves every `auto` and refuses what does not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace escalier::config {

// A value that may be left to Escalier: `auto` in YAML. Resolved specs hold numbers only.
using AutoInt = std::optional<std::int64_t>;

struct RunConfig {
    std::string name = "auto";  // auto: the stem of the job file
    std::string dir = "runs";   // run directory = dir/name
    std::int64_t seed = 1234;
    std::string device = "auto";  // auto | cpu | cuda
    AutoInt threads;              // compute threads per rank; auto: allowed cores / local ranks
    bool deterministic = true;
    std::string comm = "auto";   // auto | mpi | nccl | staged
    std::string clock = "real";  // real | sleep
    double layer_ms = 0;         // clock sleep: of a layer's F, I and W each
    bool share_gpu = false;
    std::int64_t comm_timeout_s = 120;
    bool cuda_graphs = true;  // actions are recorded once and replayed
    double max_minutes = 0;   // of the whole run, its start included; 0: no limit

    bool operator==(const RunConfig&) const = default;
};

enum class Arch { gpt2, llama };

// Frequencies of RoPE stretched as Llama 3.1 does (formats.md section 2.3).
struct RopeScaling {
    std::string type = "llama3";
    double factor = 8.0;
    double low_freq_factor = 1.0;
    double high_freq_factor = 4.0;
    std::int64_t original_max_positions = 8192;

    bool operator==(const RopeScaling&) const = default;
};

struct RopeConfig {
    double theta = 10000.0;
    std::optional<RopeScaling> scaling;

    bool operator==(const RopeConfig&) const = default;
};

struct ModelConfig {
    std::string preset;  // empty: spelled out
    Arch arch = Arch::gpt2;
    std::int64_t num_layers = 0;
    std::int64_t hidden_size = 0;
    std::int64_t num_heads = 0;
    std::int64_t num_kv_heads = 0;   // auto: num_heads
    std::int64_t head_dim = 0;       // auto: hidden_size / num_heads
    std::int64_t ffn_size = 0;       // auto: 4 * hidden_size (gpt2)
    std::int64_t vocab_size = 0;     // logical; padded inside to a multiple of 128 * tp
    std::int64_t max_positions = 0;  // auto: train.seq_len (gpt2), unbounded (llama)
    bool tie_embeddings = true;
    bool qkv_bias = false;  // llama only (Qwen2); gpt2 always has biases
    bool qk_norm = false;   // llama only (Qwen3)
    double norm_eps = 1e-5;
    RopeConfig rope;       // llama only
    double dropout = 0.0;  // after the embedding and after each residual branch

    bool operator==(const ModelConfig&) const = default;
};

struct ParallelConfig {
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    std::int64_t dp = 0;  // auto (0 before resolving): ranks / (tp * pp)

    bool operator==(const ParallelConfig&) const = default;
};

struct PipelineConfig {
    std::string schedule = "1f1b";  // a kind of schedule/generators.h, or csv
    AutoInt chunks;                 // stages per pipeline rank; auto: what the schedule needs
    AutoInt group;                  // interleaved schedules: micro-batches per visit of a chunk
    std::string backward = "fifo";  // fifo | lifo
    std::string file;               // csv: path of the schedule
    std::string file_text;          // no key: what `file` holds, once resolved
    // balanced | even | the path of a profile (profile.h); empty once layers_per_stage is explicit
    std::string layout = "balanced";
    std::vector<std::int64_t> layers_per_stage;  // explicit list in YAML, or resolved

    bool operator==(const PipelineConfig&) const = default;
};

enum class Recompute { none, attention, full };

struct TrainConfig {
    std::int64_t seq_len = 0;  // tokens; auto: 256, or max_positions where that is less
    std::int64_t micro_batch = 1;
    std::int64_t global_batch = 0;  // auto: micro_batch * dp
    std::int64_t steps = 100;
    std::string dtype = "auto";  // auto | fp32 | bf16
    // none | attention | full, {every: k} (full over groups of k layers), or one entry per stage; auto: no
    // entry. Resolved: one per stage.
    std::vector<Recompute> recompute = {Recompute::none};
    std::int64_t recompute_every = 1;
    double memory_gib = 0;  // of a rank, that a chosen layout and recompute keep within; 0: no limit
    std::string on_nonfinite = "stop";  // stop | skip
    std::int64_t skip_limit = 10;       // so many steps without an update, one after the other, end the run
    double spike_z = 0;                 // a step whose loss or norm lies so far out is skipped; 0: off
    std::int64_t spike_window = 128;    // steps whose mean and deviation a spike is held against

    bool operator==(const TrainConfig&) const = default;
};

struct OptimizerConfig {
    std::string name = "adamw";  // adamw | sgd
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0.1;  // matrices only
    double clip_grad = 1.0;     // 0: off

    bool operator==(const OptimizerConfig&) const = default;
};

struct LrConfig {
    double peak = 3e-4;
    double min = 0.0;
    std::string schedule = "cosine";  // constant | linear | cosine | wsd | inverse_sqrt
    std::int64_t warmup_steps = 0;
    AutoInt decay_steps;  // auto: train.steps; wsd: the length of the last, falling part, auto = steps / 10

    bool operator==(const LrConfig&) const = default;
};

struct DataSource {
    std::string path;
    double weight = 1.0;

    bool operator==(const DataSource&) const = default;
};

struct DataConfig {
    std::vector<DataSource> train;
    std::string format = "auto";     // auto | megatron | llmc | raw16 | raw32 | jsonl | text
    std::string split = "98,2,0";    // train, validation, test shares
    std::string order = "native";    // native | megatron
    std::string tokenizer = "byte";  // byte | sp:PATH
    bool allow_change = false;       // a resume may go on with other data

    bool operator==(const DataConfig&) const = default;
};

struct EvalConfig {
    std::int64_t every = 0;     // steps between validations; 0: off
    std::int64_t batches = 10;  // global batches of the fixed validation set

    bool operator==(const EvalConfig&) const = default;
};

struct CheckpointConfig {
    std::int64_t every = 0;       // steps between checkpoints; 0: none but the last
    bool last = true;             // one after the last step too
    std::int64_t keep_last = 3;   // newest ones that stay; 0: all
    std::int64_t keep_every = 0;  // those of steps divisible by it stay for ever; 0: none
    bool async = true;            // training goes on while one is written
    std::string resume = "none";  // none | auto | a run folder or one of its step folders

    // Whether a run writes any.
    bool saves() const { return every > 0 || last; }

    bool operator==(const CheckpointConfig&) const = default;
};

// The window of steps that trace.json shows.
struct TraceConfig {
    std::int64_t start = 2;  // its first step, counted from 1
    std::int64_t steps = 0;  // 0: no trace

    bool operator==(const TraceConfig&) const = default;
};

struct LogConfig {
    std::int64_t every = 1;
    bool jsonl = true;
    bool tensorboard = false;
    std::int64_t prometheus_port = 0;  // 0: off
    TraceConfig trace;
    AutoInt peak_tflops;  // of one device, for MFU; auto: by the name of the GPU

    bool operator==(const LogConfig&) const = default;
};

// A key of the spec, or `ranks` for the processes of the job, and a value in YAML on one line.
struct SweepSetting {
    std::string key;
    std::string value;

    bool operator==(const SweepSetting&) const = default;
};

// A key, or `ranks`, and the values that it takes in turn, in YAML on one line each.
struct SweepAxis {
    std::string key;
    std::vector<std::string> values;

    bool operator==(const SweepAxis&) const = default;
};

// The job with every combination of its axes' values; a run knows nothing of it.
struct SweepConfig {
    std::vector<SweepAxis> axes;
    std::vector<std::vector<SweepSetting>>
        exclude;  // points that have all settings of one of these are left out

    bool operator==(const SweepConfig&) const = default;
};

struct JobSpec {
    std::int64_t version = 1;
    RunConfig run;
    ModelConfig model;
    ParallelConfig parallel;
    PipelineConfig pipeline;
    TrainConfig train;
    OptimizerConfig optimizer;
    LrConfig lr;
    DataConfig data;
    EvalConfig eval;
    CheckpointConfig checkpoint;
    LogConfig log;
    SweepConfig sweep;

    // Micro-batches per replica and step; valid once resolved.
    std::int64_t micro_batches() const { return train.global_batch / (train.micro_batch * parallel.dp); }

    bool operator==(const JobSpec&) const = default;
};

}  // namespace escalier::config
