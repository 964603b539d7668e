#include "config/rules.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>

#include "config/device_rules.h"
#include "config/model_facts.h"
#include "config/number_text.h"
#include "config/pipeline_rules.h"
#include "config/rule_book.h"
#include "config/sweep_rules.h"
#include "core/limits.h"

namespace escalier::config {

namespace {

class Validator : RuleBook {
 public:
    Validator(Job& job, std::int64_t ranks, Problems& problems)
        : RuleBook(job, problems), job_(job), ranks_(ranks) {}

    // pipeline_rules: what comes after the batch.
    void run(const std::function<void()>& pipeline_rules) {
        lengths();
        model();
        grid();
        tensor_parallel();
        batches();
        apply_device_rules(job_, problems_);  // a choice of stages depends on the type
        pipeline_rules();
        totals();
        rates();
        data();
        clock();
        apply_sweep_rules(job_, problems_);
    }

 private:
    void lengths() {
        const std::int64_t most = spec_.model.max_positions;  // 0: not said
        TrainConfig& train = spec_.train;
        if (train.seq_len == 0) train.seq_len = most > 0 ? std::min<std::int64_t>(256, most) : 256;
        require(most == 0 || train.seq_len <= most, {"train.seq_len", "model.max_positions"},
                text(train.seq_len) + " is more than model.max_positions " + text(most) +
                    (spec_.model.arch == Arch::gpt2 ? ", the rows of the table of learned positions"
                                                    : ", the longest text that the model is made for") +
                    "; shorten the one or raise the other");
    }

    void model() {
        ModelConfig& m = spec_.model;
        if (m == ModelConfig{}) {
            require(false, {"model"},
                    "the section is missing; a job needs a model, such as model: {preset: tiny}");
            return;
        }
        const auto needed = [&](std::int64_t value, const char* key) {
            require(value > 0, {key, "model"},
                    "is needed; write it out, or start from a model.preset such as tiny");
        };
        needed(m.num_layers, "model.num_layers");
        needed(m.hidden_size, "model.hidden_size");
        needed(m.num_heads, "model.num_heads");
        needed(m.vocab_size, "model.vocab_size");
        if (m.arch == Arch::llama)
            needed(m.ffn_size, "model.ffn_size");
        else
            gpt2_only();
        if (m.head_dim == 0 && m.num_heads > 0)
            require(m.hidden_size % m.num_heads == 0,
                    {"model.hidden_size", "model.num_heads", "model.head_dim"},
                    text(m.hidden_size) + " is not divisible by model.num_heads " + text(m.num_heads) +
                        "; change one of them, or give model.head_dim (llama)");
        m = resolved_model(m, spec_.train.seq_len);
        if (m.num_kv_heads > 0)
            require(m.num_heads % m.num_kv_heads == 0, {"model.num_heads", "model.num_kv_heads"},
                    text(m.num_heads) + " is not divisible by model.num_kv_heads " + text(m.num_kv_heads) +
                        ": each key head serves equally many query heads");
        if (m.arch == Arch::llama) {
            require(m.head_dim % 2 == 0, {"model.head_dim", "model.hidden_size", "model.num_heads"},
                    text(m.head_dim) +
                        " is odd, but rotary positions turn pairs of channels; wanted an even number");
            if (m.rope.scaling)
                require(m.rope.scaling->low_freq_factor < m.rope.scaling->high_freq_factor,
                        {"model.rope.scaling"},
                        "low_freq_factor " + real_text(m.rope.scaling->low_freq_factor) +
                            " is not below high_freq_factor " + real_text(m.rope.scaling->high_freq_factor));
        }
    }

    void clock() {
        const RunConfig& run = spec_.run;
        require(run.clock != "sleep" || run.layer_ms > 0, {"run.layer_ms", "run.clock"},
                "is needed beside run.clock sleep: the milliseconds of a layer's pass, such as 5");
        require(run.clock == "sleep" || run.layer_ms == 0, {"run.layer_ms", "run.clock"},
                "found " + real_text(run.layer_ms) +
                    ", but run.clock real takes the time that the work takes; remove it, or set run.clock: "
                    "sleep");
    }

    void gpt2_only() {
        const ModelConfig& m = spec_.model;
        const std::string llama =
            ", which arch llama has and gpt2 does not; remove it or set model.arch: llama";
        require(!m.qkv_bias, {"model.qkv_bias", "model.arch"},
                "found true; gpt2 always has biases: remove it or set model.arch: llama");
        require(!m.qk_norm, {"model.qk_norm", "model.arch"}, "found true" + llama);
        require(m.rope.theta == RopeConfig{}.theta, {"model.rope.theta", "model.arch"},
                "found " + real_text(m.rope.theta) + llama);
        require(!m.rope.scaling, {"model.rope.scaling", "model.arch"}, "found a scaling" + llama);
        require(m.num_kv_heads == 0 || m.num_kv_heads == m.num_heads,
                {"model.num_kv_heads", "model.num_heads", "model.arch"},
                "found " + text(m.num_kv_heads) + " beside num_heads " + text(m.num_heads) + llama);
        require(m.head_dim == 0 || m.head_dim * m.num_heads == m.hidden_size,
                {"model.head_dim", "model.hidden_size", "model.num_heads", "model.arch"},
                "found " + text(m.head_dim) + "; with gpt2 it is hidden_size / num_heads; leave it auto");
    }

    void grid() {
        ParallelConfig& p = spec_.parallel;
        const std::int64_t replica = p.tp * p.pp;
        if (!sound({"parallel.tp", "parallel.pp", "parallel.dp"})) {
            if (p.dp == 0) p.dp = 1;
            return;
        }
        const bool dp_auto = p.dp == 0;
        if (dp_auto) p.dp = std::max<std::int64_t>(1, ranks_ / replica);
        const std::int64_t needs = replica * p.dp;
        if (needs > most_ranks) {
            refuse({"parallel", "parallel.tp", "parallel.pp", "parallel.dp"},
                   "grid " + text(p.tp) + "x" + text(p.pp) + "x" + text(p.dp) + " (tp x pp x dp) is " +
                       text(needs) + " processes, and a job may have " + text(most_ranks) +
                       "; make it smaller");
            return;
        }
        if (needs == ranks_) return;
        const std::int64_t smallest = dp_auto ? replica : needs;
        std::string mend;
        if (dp_auto) {
            const std::int64_t below = ranks_ / replica * replica;
            mend = "parallel.dp is auto: start " + (below > 0 ? text(below) + " or " : "") +
                   text(below + replica) + " processes, or change parallel.tp and parallel.pp";
        } else {
            mend = "start " + text(needs);
            if (ranks_ % replica == 0)
                mend += ", or set parallel.dp to " + text(ranks_ / replica) + " or auto";
        }
        const std::int64_t dp = smallest / replica;
        if (dp_auto) problems_.doubt("parallel.dp");
        report({"parallel", "parallel.tp", "parallel.pp", "parallel.dp"},
               "grid " + text(p.tp) + "x" + text(p.pp) + "x" + text(dp) + " (tp x pp x dp) needs " +
                   text(smallest) + (smallest == 1 ? " process" : " processes") + ", got " + text(ranks_) +
                   "; " + mend);
    }

    // The tensor sizes that the model can be cut into.
    bool tp_fits(std::int64_t tp) const {
        const ModelConfig& m = spec_.model;
        return m.num_heads % tp == 0 && m.ffn_size % tp == 0 &&
               (m.num_kv_heads % tp == 0 || tp % m.num_kv_heads == 0);
    }

    void tensor_parallel() {
        const ModelConfig& m = spec_.model;
        const std::int64_t tp = spec_.parallel.tp;
        if (m.num_heads <= 0 || m.num_kv_heads <= 0 || m.ffn_size <= 0) return;
        if (!sound({"model.num_heads", "model.num_kv_heads", "model.ffn_size"})) return;
        std::vector<std::int64_t> fitting;
        for (std::int64_t size = 1; size <= m.num_heads; ++size)
            if (tp_fits(size)) fitting.push_back(size);
        const std::string mend =
            " (heads " + text(m.num_heads) + ": parallel.tp may be " + join(fitting) + ")";
        if (m.num_heads % tp != 0) {
            require(false, {"parallel.tp", "model.num_heads"},
                    "model.num_heads " + text(m.num_heads) + " is not divisible by tp " + text(tp) + mend);
        } else if (m.num_kv_heads % tp != 0 && tp % m.num_kv_heads != 0) {
            require(false, {"parallel.tp", "model.num_kv_heads"},
                    "model.num_kv_heads " + text(m.num_kv_heads) + " neither divides tp " + text(tp) +
                        " nor is divisible by it" + mend);
        } else if (m.ffn_size % tp != 0) {
            require(false, {"parallel.tp", "model.ffn_size"},
                    "model.ffn_size " + text(m.ffn_size) + " is not divisible by tp " + text(tp) + mend);
        }
    }

    void batches() {
        TrainConfig& train = spec_.train;
        const std::int64_t dp = spec_.parallel.dp, unit = train.micro_batch * dp;
        const bool is_auto = train.global_batch == 0;
        if (is_auto) train.global_batch = unit;
        if (!sound({"train.global_batch", "train.micro_batch", "parallel.dp"})) return;
        if (is_auto && unit > most_samples)
            refuse({"train.global_batch", "train.micro_batch", "parallel.dp"},
                   "auto gives micro_batch " + text(train.micro_batch) + " x dp " + text(dp) + " = " +
                       text(unit) + " samples, and a batch may have " + text(most_samples) +
                       "; lower train.micro_batch");
        else if (train.global_batch % unit != 0)
            refuse_uneven_batch(unit);
        else
            micro_batches(train.global_batch / unit);
    }

    void refuse_uneven_batch(std::int64_t unit) {
        const TrainConfig& train = spec_.train;
        const std::int64_t dp = spec_.parallel.dp, batch = train.global_batch;
        std::vector<std::int64_t> sizes;
        if (batch % dp == 0)
            for (std::int64_t size = 1; size <= std::min<std::int64_t>(batch / dp, 4096); ++size)
                if (batch / dp % size == 0) sizes.push_back(size);
        if (sizes.size() > 8) sizes.resize(8);
        const std::int64_t below = batch / unit * unit;
        refuse({"train.global_batch", "train.micro_batch", "parallel.dp"},
               "global_batch " + text(batch) + " is not divisible by micro_batch " + text(train.micro_batch) +
                   " x dp " + text(dp) + " = " + text(unit) + ": " + text(batch) + " is not divisible by " +
                   text(unit) + "; global_batch may be " + (below > 0 ? text(below) + " or " : "") +
                   text(below + unit) + (sizes.empty() ? "" : ", or micro_batch " + join(sizes)));
    }

    void micro_batches(std::int64_t count) {
        const std::int64_t pp = spec_.parallel.pp, dp = spec_.parallel.dp;
        const std::int64_t most = std::max<std::int64_t>(1, most_schedule_cells / pp);
        const std::int64_t per_replica = spec_.train.global_batch / dp;
        require(count <= most, {"train.global_batch", "train.micro_batch", "parallel.pp", "parallel.dp"},
                "global_batch " + text(spec_.train.global_batch) + " is " + text(count) +
                    " micro-batches of micro_batch " + text(spec_.train.micro_batch) + " on each of dp " +
                    text(dp) + ", and with pp " + text(pp) + " a schedule may have " + text(most) +
                    "; lower global_batch, or raise train.micro_batch to at least " +
                    text((per_replica + most - 1) / most));
    }

    // Tokens and samples are counted in 64 bits.
    void totals() {
        constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
        const TrainConfig& train = spec_.train;
        if (!sound({"train.global_batch", "train.seq_len"})) return;
        const auto within = [&](std::int64_t count, const char* key) {
            const std::int64_t limit = most / train.global_batch / train.seq_len;
            require(count <= limit, {key, "train.global_batch", "train.seq_len"},
                    text(count) + " x train.global_batch " + text(train.global_batch) + " x train.seq_len " +
                        text(train.seq_len) + " tokens are too many for 64 bits; " + key +
                        " may be at most " + text(limit));
        };
        within(train.steps, "train.steps");
        within(spec_.eval.batches, "eval.batches");
    }

    void rates() {
        LrConfig& lr = spec_.lr;
        const std::int64_t steps = spec_.train.steps;
        require(lr.min <= lr.peak, {"lr.min", "lr.peak"},
                real_text(lr.min) + " is more than lr.peak " + real_text(lr.peak) +
                    "; the rate falls from peak to min");
        if (!lr.decay_steps) {
            lr.decay_steps = lr.schedule == "wsd" ? std::max<std::int64_t>(1, steps / 10)
                                                  : std::max(steps, lr.warmup_steps + 1);
            return;
        }
        if (lr.schedule == "linear" || lr.schedule == "cosine")
            require(*lr.decay_steps > lr.warmup_steps, {"lr.decay_steps", "lr.warmup_steps"},
                    text(*lr.decay_steps) + " is not more than lr.warmup_steps " + text(lr.warmup_steps) +
                        ": the decay ends at step decay_steps, after the warm-up");
    }

    void data() {
        const DataConfig& data = spec_.data;
        require(
            data.tokenizer == "byte" || (data.tokenizer.rfind("sp:", 0) == 0 && data.tokenizer.size() > 3),
            {"data.tokenizer"},
            "found " + data.tokenizer + ", wanted byte, or sp:PATH of a SentencePiece model");
        if (data.tokenizer == "byte" && (data.format == "text" || data.format == "jsonl"))
            require(
                spec_.model.vocab_size >= 257, {"model.vocab_size", "data.tokenizer", "data.format"},
                text(spec_.model.vocab_size) + " is too small for data.tokenizer byte, which has 257 ids");
        require(
            split_is_sound(data.split), {"data.split"},
            "found " + data.split + ", wanted shares of training, validation and test such as \"98,2,0\"");
        require(!spec_.run.name.empty() && spec_.run.name.find('/') == std::string::npos &&
                    spec_.run.name != "." && spec_.run.name != "..",
                {"run.name"},
                "found \"" + spec_.run.name + "\", wanted the name of a folder; run.dir holds the path");
        require(!spec_.run.dir.empty(), {"run.dir"}, "found nothing, wanted the path of a folder");
    }

    // One to three shares, none negative, the first above 0.
    static bool split_is_sound(const std::string& split) {
        int count = 0;
        for (std::size_t start = 0; start <= split.size(); ++count) {
            const std::size_t end = std::min(split.find(',', start), split.size());
            const std::size_t first = std::min(split.find_first_not_of(' ', start), end);
            double share = -1.0;
            const auto result = std::from_chars(split.data() + first, split.data() + end, share);
            if (result.ec != std::errc{} || !(share >= 0.0) || share > 1e9) return false;
            if (split.find_first_not_of(' ', static_cast<std::size_t>(result.ptr - split.data())) < end)
                return false;
            if (count == 0 && share == 0.0) return false;
            start = end + 1;
        }
        return count >= 1 && count <= 3;
    }

    Job& job_;
    std::int64_t ranks_;
};

}  // namespace

void apply_rules(Job& job, std::int64_t ranks, const ScheduleRules& schedules, Problems& problems) {
    Validator(job, ranks, problems).run([&] { apply_pipeline_rules(job, schedules, problems); });
}

}  // namespace escalier::config
