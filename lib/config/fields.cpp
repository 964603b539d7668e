#include "config/fields.h"

#include "config/number_text.h"

namespace escalier::config {

namespace {

// Limits that keep every product of sizes (parameters, tokens, FLOPs) inside 64 bits.
constexpr std::int64_t most_layers = 1 << 14;
constexpr std::int64_t most_hidden = 1 << 17;
constexpr std::int64_t most_ffn = 1 << 20;
constexpr std::int64_t most_heads = 1 << 14;
constexpr std::int64_t most_head_dim = 1 << 12;
constexpr std::int64_t most_vocab = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t most_traced = 100;      // steps: memory for them is taken before the first one
constexpr std::int64_t most_steps = 99999999;  // the digits of a checkpoint's name

FieldValue count(std::int64_t& at, std::int64_t min, std::int64_t max) {
    return IntField{&at, {min, max, false}};
}
FieldValue count_or_auto(std::int64_t& at, std::int64_t max) {
    return IntField{&at, {1, max, true}};
}
FieldValue count_or_auto(AutoInt& at, std::int64_t min, std::int64_t max) {
    return AutoIntField{&at, {min, max, false}};
}
FieldValue real(double& at, RealRule rule) {
    return RealField{&at, rule};
}
FieldValue yes_no(bool& at) {
    return BoolField{&at};
}
FieldValue text(std::string& at) {
    return TextField{&at, {}};
}
FieldValue text_or_null(std::string& at) {
    return TextField{&at, {{}, true}};
}
FieldValue one_of(std::string& at, std::vector<std::string> choices) {
    return TextField{&at, {std::move(choices), false}};
}

constexpr double unbounded = std::numeric_limits<double>::infinity();
constexpr RealRule not_negative = {.min = 0.0, .max = unbounded};
constexpr RealRule positive = {.min = 0.0, .max = unbounded, .min_open = true};
constexpr RealRule share_below_one = {.min = 0.0, .max = 1.0, .max_open = true};
constexpr RealRule at_least_one = {.min = 1.0, .max = unbounded};

}  // namespace

// clang-format off: one line per key
void fields(FieldTable& f, RunConfig& c) {
    f("name", text(c.name), "name of the run; auto: the job file's name without its ending");
    f("dir", text(c.dir), "folder of all runs, shared by all nodes; this run's own folder is dir/name");
    f("seed", count(c.seed, 0, std::numeric_limits<std::int64_t>::max()),
      "seed of initial weights, dropout and sample order");
    f("device", one_of(c.device, {"auto", "cpu", "cuda"}),
      "where to compute; auto: cuda where every rank finds a GPU, else cpu");
    f("threads", count_or_auto(c.threads, 1, 4096),
      "compute threads per rank; auto: cores allowed / ranks on the node");
    f("deterministic", yes_no(c.deterministic),
      "results are equal bit for bit run to run (cuda: sums over ranks in rank order; false may be faster)");
    f("comm", one_of(c.comm, {"auto", "mpi", "nccl", "staged"}),
      "what moves tensors between ranks; auto: mpi on the CPU, nccl between GPUs, staged (through host "
      "memory) "
      "where ranks share one");
    f("clock", one_of(c.clock, {"real", "sleep"}),
      "real: actions last as long as they take; sleep: as long as run.layer_ms says, by sleeping after their "
      "work, so that ranks sharing cores are timed as if they had their own; results are the same (cpu)");
    f("layer_ms", real(c.layer_ms, not_negative),
      "clock sleep: milliseconds that forward, input gradient and weight gradient of a layer take each");
    f("share_gpu", yes_no(c.share_gpu), "several ranks may use one GPU, in turn (cuda)");
    f("comm_timeout_s", count(c.comm_timeout_s, 1, 86400),
      "seconds without an answer from a rank until the job is ended; a save whose files get nowhere for ten "
      "times "
      "as long ends it too");
    f("cuda_graphs", yes_no(c.cuda_graphs),
      "each kind of action is recorded once and replayed; false: kernel by kernel (cuda)");
    f("max_minutes", real(c.max_minutes, not_negative),
      "minutes from the start after which the run saves a checkpoint and ends with 75; 0: no limit");
}

void fields(FieldTable& f, RopeScaling& c) {
    f("type", one_of(c.type, {"llama3"}), "how frequencies are stretched");
    f("factor", real(c.factor, at_least_one), "stretch of the low frequencies");
    f("low_freq_factor", real(c.low_freq_factor, positive),
      "wavelengths above original_max_positions / this are stretched whole");
    f("high_freq_factor", real(c.high_freq_factor, positive),
      "wavelengths below original_max_positions / this are left alone");
    f("original_max_positions", count(c.original_max_positions, 1, most_sequence),
      "tokens of context before the stretch");
}

void fields(FieldTable& f, RopeConfig& c) {
    f("theta", real(c.theta, positive), "base of the rotary frequencies");
    f("scaling", ScalingField{&c.scaling}, "stretch of the rotary frequencies for long contexts, or null");
}

void fields(FieldTable& f, ModelConfig& c) {
    f("preset", text(c.preset), "name of a model to start from; keys beside it override it");
    f("arch", ArchField{&c.arch},
      "gpt2: learned positions, LayerNorm, GELU tanh, biases; llama: RoPE, RMSNorm, SwiGLU, grouped heads");
    f("num_layers", count(c.num_layers, 1, most_layers), "transformer layers");
    f("hidden_size", count(c.hidden_size, 1, most_hidden), "width of the residual stream");
    f("num_heads", count(c.num_heads, 1, most_heads), "query heads");
    f("num_kv_heads", count_or_auto(c.num_kv_heads, most_heads),
      "key and value heads (llama); auto: num_heads");
    f("head_dim", count_or_auto(c.head_dim, most_head_dim),
      "width of one head (llama); auto: hidden_size / num_heads");
    f("ffn_size", count_or_auto(c.ffn_size, most_ffn),
      "width inside the MLP; auto: 4 x hidden_size (gpt2), needed for llama");
    f("vocab_size", count(c.vocab_size, 2, most_vocab), "token ids; padded inside to a multiple of 128 x tp");
    f("max_positions", count_or_auto(c.max_positions, most_sequence),
      "tokens of the longest text that the model is made for; auto: train.seq_len, the rows of the table of "
      "learned positions (gpt2), or not said (llama)");
    f("tie_embeddings", yes_no(c.tie_embeddings), "the output head is the token embedding");
    f("qkv_bias", yes_no(c.qkv_bias), "biases on query, key and value (llama; Qwen2 has them)");
    f("qk_norm", yes_no(c.qk_norm), "RMSNorm over each query and key head (llama; Qwen3 has it)");
    f("norm_eps", real(c.norm_eps, positive), "epsilon of the norms");
    f.section("rope", c.rope, "rotary positions (llama)");
    f("dropout", real(c.dropout, share_below_one),
      "share dropped after the embedding and after each residual branch");
}

void fields(FieldTable& f, ParallelConfig& c) {
    f("tp", count(c.tp, 1, most_ranks), "tensor-parallel ranks");
    f("pp", count(c.pp, 1, most_ranks), "pipeline-parallel ranks");
    f("dp", count_or_auto(c.dp, most_ranks), "data-parallel replicas; auto: ranks / (tp x pp)");
}

void fields(FieldTable& f, PipelineConfig& c) {
    f("schedule",
      one_of(c.schedule, {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "interleaved-zb", "zbv",
                          "v-half", "v-min", "dualpipe", "dualpipev", "auto", "csv"}),
      "order of forward and backward passes; auto: built for this model's predicted times; csv: that of "
      "pipeline.file");
    f("chunks", count_or_auto(c.chunks, 1, most_layers),
      "stages per pipeline rank; auto: what the schedule or its file needs");
    f("group", count_or_auto(c.group, 1, most_samples),
      "micro-batches per visit of a chunk (interleaved, interleaved-zb); auto: about as many as pipeline "
      "ranks");
    f("backward", one_of(c.backward, {"fifo", "lifo"}),
      "order of the backward passes of gpipe and bfs; lifo gives up bit-equality");
    f("file", text_or_null(c.file),
      "schedule csv: path of the file, one line per pipeline rank, cells such as 0F3");
    f("layout", LayoutField{&c},
      "layers per stage; balanced: by FLOPs, embedding and head counted; even; a profile of plan --measure: "
      "by "
      "measured times; or a list over pp x chunks stages");
}

void fields(FieldTable& f, TrainConfig& c) {
    f("seq_len", count_or_auto(c.seq_len, most_sequence),
      "tokens per sample; auto: 256, or model.max_positions where that is less");
    f("micro_batch", count(c.micro_batch, 1, most_samples), "samples per micro-batch");
    f("global_batch", count_or_auto(c.global_batch, most_samples),
      "samples per step over all replicas; auto: micro_batch x dp");
    f("steps", count(c.steps, 1, most_steps), "optimizer updates");
    f("dtype", one_of(c.dtype, {"auto", "fp32", "bf16"}),
      "type of activations and of the weights that products read; auto: fp32 on the CPU, bf16 on GPUs");
    f("recompute", RecomputeField{&c},
      "what the backward pass computes anew instead of keeping it; auto: on each stage the least that fits "
      "into "
      "memory_gib");
    f("memory_gib", real(c.memory_gib, not_negative),
      "GiB of a rank's model state and activations, as estimated, that recompute auto and a layout by a "
      "profile keep within; 0: no limit");
    f("on_nonfinite", one_of(c.on_nonfinite, {"stop", "skip"}),
      "a loss or gradient that is NaN or infinite ends the run, or its step updates nothing; a validation "
      "loss ends it too, or is warned of");
    f("skip_limit", count(c.skip_limit, 1, most_steps),
      "steps without an update, one after the other, that end the run");
    f("spike_z", real(c.spike_z, not_negative),
      "standard deviations above the mean of recent steps from which a loss or gradient norm is a spike, "
      "whose "
      "step updates nothing; 0: off");
    f("spike_window", count(c.spike_window, 8, 65536), "recent steps that a spike is held against");
}

void fields(FieldTable& f, OptimizerConfig& c) {
    f("name", one_of(c.name, {"adamw", "sgd"}), "update rule");
    f("beta1", real(c.beta1, share_below_one), "decay of the first moment (adamw)");
    f("beta2", real(c.beta2, share_below_one), "decay of the second moment (adamw)");
    f("eps", real(c.eps, positive), "added to the root of the second moment (adamw)");
    f("weight_decay", real(c.weight_decay, not_negative),
      "decoupled decay of matrices, per unit of learning rate");
    f("clip_grad", real(c.clip_grad, not_negative), "largest norm of the gradient; 0: off");
}

void fields(FieldTable& f, LrConfig& c) {
    f("peak", real(c.peak, not_negative), "learning rate after warm-up");
    f("min", real(c.min, not_negative), "learning rate at the end of the decay");
    f("schedule", one_of(c.schedule, {"constant", "linear", "cosine", "wsd", "inverse_sqrt"}),
      "how the rate falls after warm-up");
    f("warmup_steps", count(c.warmup_steps, 0, most_steps), "steps of linear rise to peak");
    f("decay_steps", count_or_auto(c.decay_steps, 1, most_steps),
      "step at which min is reached, auto: train.steps; wsd: length of the falling part, auto: train.steps / "
      "10");
}

void fields(FieldTable& f, DataSource& c) {
    f("path", text(c.path), "file of tokens or text; for megatron the common prefix of .bin and .idx");
    f("weight", real(c.weight, positive), "share of samples, relative to the other sources");
}

void fields(FieldTable& f, DataConfig& c) {
    f("train", SourcesField{&c.train}, "what to train on");
    f("format", one_of(c.format, {"auto", "megatron", "llmc", "raw16", "raw32", "jsonl", "text"}),
      "format of the files");
    f("split", text(c.split), "shares of training, validation and test: \"98,2,0\"");
    f("order", one_of(c.order, {"native", "megatron"}), "how samples are shuffled");
    f("tokenizer", text(c.tokenizer), "for text and jsonl: byte, or sp:PATH of a SentencePiece model");
    f("allow_change", yes_no(c.allow_change), "a resumed run may go on with other data or another order");
}

void fields(FieldTable& f, EvalConfig& c) {
    f("every", count(c.every, 0, most_steps), "steps between validations; 0: off");
    f("batches", count(c.batches, 1, most_samples), "global batches of the fixed validation set");
}

void fields(FieldTable& f, CheckpointConfig& c) {
    f("every", count(c.every, 0, most_steps), "steps between checkpoints; 0: none but the last");
    f("last", yes_no(c.last), "a checkpoint after the last step too");
    f("keep_last", count(c.keep_last, 0, most_steps), "newest checkpoints that are kept; 0: all");
    f("keep_every", count(c.keep_every, 0, most_steps),
      "checkpoints of steps divisible by it are kept for ever; 0: none");
    f("async", yes_no(c.async), "training goes on while a checkpoint is written, from a copy in host memory");
    f("resume", text(c.resume),
      "none; auto: the newest whole checkpoint of run.dir/run.name, if there is one; or a run folder or one "
      "of its step folders, which --resume auto takes as long as the run has no checkpoint of its own");
}

void fields(FieldTable& f, TraceConfig& c) {
    f("start", count(c.start, 1, most_steps), "first step of the trace, counted from 1");
    f("steps", count(c.steps, 0, most_traced), "steps of the trace; 0: none is made");
}

void fields(FieldTable& f, LogConfig& c) {
    f("every", count(c.every, 0, most_steps), "steps between lines of the log; 0: off");
    f("jsonl", yes_no(c.jsonl), "write metrics.jsonl");
    f("tensorboard", yes_no(c.tensorboard), "write event files for TensorBoard");
    f("prometheus_port", count(c.prometheus_port, 0, 65535),
      "port on 127.0.0.1 at which rank 0 answers Prometheus; 0: none");
    f.section("trace", c.trace, "steps that trace.json shows, for Perfetto");
    f("peak_tflops", count_or_auto(c.peak_tflops, 1, 1000000),
      "dense peak of one device in TFLOP/s, the denominator of MFU; auto: by the GPU's name, none on a CPU");
}

void fields(FieldTable& f, SweepConfig& c) {
    f("axes", AxesField{&c.axes},
      "keys of the job, or ranks, and the values that each takes in turn; every combination is a point");
    f("exclude", ExcludeField{&c.exclude}, "values of axes whose points are left out");
}

void fields(FieldTable& f, JobSpec& c) {
    f("version", count(c.version, 1, 1), "version of the job spec");
    f.section("run", c.run, "the run as a whole");
    f.section("model", c.model, "the transformer");
    f.section("parallel", c.parallel, "the grid of ranks");
    f.section("pipeline", c.pipeline, "schedule and stages");
    f.section("train", c.train, "batches, length, memory");
    f.section("optimizer", c.optimizer, "the update");
    f.section("lr", c.lr, "the learning rate");
    f.section("data", c.data, "token files");
    f.section("eval", c.eval, "validation");
    f.section("checkpoint", c.checkpoint, "saving and resuming");
    f.section("log", c.log, "what is reported");
    f.section("sweep", c.sweep, "the job in many variants, for escalier sweep");
}
// clang-format on

const Field* FieldTable::find(const std::string& path) const {
    for (const Field& field : fields_)
        if (field.path == path) return &field;
    return nullptr;
}

const Section* FieldTable::find_section(const std::string& path) const {
    for (const Section& section : sections_)
        if (section.path == path) return &section;
    return nullptr;
}

std::vector<std::string> FieldTable::names_in(const std::string& path) const {
    const std::string prefix = path.empty() ? prefix_ : path + ".";
    std::vector<std::string> names;
    const auto collect = [&](const std::string& full) {
        if (full.size() <= prefix.size() || full.compare(0, prefix.size(), prefix) != 0) return;
        const std::string rest = full.substr(prefix.size());
        if (rest.find('.') == std::string::npos) names.push_back(rest);
    };
    for (const Field& field : fields_) collect(field.path);
    for (const Section& section : sections_) collect(section.path);
    return names;
}

namespace {

std::string words(const IntRule& rule) {
    if (rule.min == rule.max) return std::to_string(rule.min);
    constexpr std::int64_t worth_telling = 1 << 20;
    if (rule.max <= worth_telling)
        return "a whole number from " + std::to_string(rule.min) + " to " + std::to_string(rule.max);
    return "a whole number of at least " + std::to_string(rule.min);
}

std::string join(const std::vector<std::string>& items) {
    std::string out;
    for (std::size_t i = 0; i < items.size(); ++i)
        out += (i == 0 ? "" : i + 1 == items.size() ? " or " : ", ") + items[i];
    return out;
}

struct Wanted {
    std::string operator()(const IntField& f) const {
        return words(f.rule) + (f.rule.zero_is_auto ? ", or auto" : "");
    }
    std::string operator()(const AutoIntField& f) const { return words(f.rule) + ", or auto"; }
    std::string operator()(const RealField& f) const {
        std::string out = "a number";
        if (std::isfinite(f.rule.min))
            out += (f.rule.min_open ? " above " : " of at least ") + real_text(f.rule.min);
        if (std::isfinite(f.rule.max))
            out += (f.rule.max_open ? " and below " : " and at most ") + real_text(f.rule.max);
        return out;
    }
    std::string operator()(const BoolField&) const { return "true or false"; }
    std::string operator()(const TextField& f) const {
        if (f.rule.or_null) return "text, or null";
        return f.rule.choices.empty() ? "text" : join(f.rule.choices);
    }
    std::string operator()(const ArchField&) const { return "gpt2 or llama"; }
    std::string operator()(const LayoutField&) const {
        return "balanced, even, a profile such as profile.yaml, or a list of layers per stage such as [3, 3]";
    }
    std::string operator()(const RecomputeField&) const {
        return "auto, none, attention, full, {every: 2}, or a list of these (but auto), one per stage";
    }
    std::string operator()(const ScalingField&) const {
        return "null, or a map such as {type: llama3, factor: 8.0}";
    }
    std::string operator()(const SourcesField&) const {
        return "a list such as [{path: data/corpus, weight: 1.0}]";
    }
    std::string operator()(const AxesField&) const {
        return "a map such as {parallel.pp: [1, 2], train.micro_batch: [1, 2, 4]}";
    }
    std::string operator()(const ExcludeField&) const {
        return "a list such as [{parallel.pp: 2, train.micro_batch: 4}]";
    }
};

}  // namespace

std::string wanted(const FieldValue& value) {
    return std::visit(Wanted{}, value);
}

}  // namespace escalier::config
