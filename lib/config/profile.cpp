#include "config/profile.h"

#include "config/dump.h"
#include "config/reader.h"
#include "core/error.h"

namespace escalier::config {

namespace {

constexpr RealRule not_negative = {.min = 0.0};

FieldValue seconds(double& at) {
    return RealField{&at, not_negative};
}
FieldValue count(std::int64_t& at) {
    return IntField{&at, {1, most_ranks, false}};
}

// "16" beside "32", of the first key in which two structs of one kind differ; empty: none.
template <class Config>
std::string difference(Config measured, Config wanted) {
    const FieldTable was = table_of(measured), is = table_of(wanted);
    for (std::size_t i = 0; i < was.all().size(); ++i) {
        const std::string &path = was.all()[i].path, a = yaml_text(was.all()[i].value),
                          b = yaml_text(is.all()[i].value);
        if (a != b) return path + " " + a + ", but the job has " + b;
    }
    return "";
}

}  // namespace

void fields(FieldTable& f, PartTimes& c) {
    f("forward", seconds(c.forward), "seconds of F");
    f("backward", seconds(c.backward), "seconds of B");
    f("input_gradient", seconds(c.input_gradient), "seconds of I");
    f("weight_gradient", seconds(c.weight_gradient), "seconds of W");
    f("forward_exchange", seconds(c.forward_exchange), "seconds of F in sums over the tensor group");
    f("backward_exchange", seconds(c.backward_exchange), "seconds of B or I in sums over the tensor group");
}

void fields(FieldTable& f, ModelTimes& c) {
    f("attention_again", seconds(c.attention_again), "seconds of one layer under recompute: attention");
    f("layer_again", seconds(c.layer_again), "seconds of one layer under recompute: full");
    f("layer_again_exchange", seconds(c.layer_again_exchange),
      "the part of it in sums over the tensor group");
    f("message", seconds(c.message), "seconds of one micro-batch's activations from a stage to the next");
    f("optimizer", seconds(c.optimizer), "seconds per parameter of the update");
    f("norm", seconds(c.norm), "seconds per parameter of the gradient norm");
    f("reduction", seconds(c.reduction), "seconds per parameter of the sum over replicas");
    f("remote_tie", seconds(c.remote_tie), "seconds per element of the tied embedding's sum over two ranks");
    f("local_tie", seconds(c.local_tie), "seconds per element of the same on one rank");
    f("data", seconds(c.data), "seconds per micro-batch until its samples are there");
    f("step", seconds(c.step), "seconds per step that do not grow with the model");
    f.section("embedding", c.embedding, "the embedding, per micro-batch");
    f.section("layer", c.layer, "one transformer layer, per micro-batch");
    f.section("head", c.head, "the loss head, per micro-batch");
}

void fields(FieldTable& f, Profile::Machine& c) {
    f("processor", TextField{&c.processor, {}}, "what computed");
    f("cores", count(c.cores), "cores of the node");
    f("ranks", count(c.ranks), "processes that measured at once");
    f("threads", count(c.threads), "compute threads of each");
}

void fields(FieldTable& f, Profile::Sizes& c) {
    f("tp", count(c.tp), "tensor-parallel ranks");
    f("micro_batch", IntField{&c.micro_batch, {1, most_samples, false}}, "samples per micro-batch");
    f("seq_len", IntField{&c.seq_len, {1, most_sequence, false}}, "tokens per sample");
    f("dtype", TextField{&c.dtype, {{"fp32", "bf16"}, false}}, "type of activations");
}

void fields(FieldTable& f, Profile& c) {
    f("version", IntField{&c.version, {1, 1, false}}, "version of the format");
    f.section("machine", c.machine, "where it was measured");
    f.section("sizes", c.sizes, "for which shapes");
    f.section("model", c.model, "for which model; num_layers: of those that were measured");
    f.section("times", c.times, "seconds");
}

std::string dump(const Profile& profile) {
    Profile copy = profile;
    return dump(table_of(copy));
}

Profile parse_profile(const YamlFile& file) {
    Profile profile;
    Problems problems;
    Origins origins;
    const FieldTable table = table_of(profile);
    const Environment nothing = [](const std::string&) { return std::nullopt; };
    Reader reader(table, nothing, problems, origins);
    reader.set_document("a profile as escalier plan --measure writes it");
    reader.read_text(file.text, {file.path});
    for (const char* key : {"version", "model.arch", "model.num_layers", "sizes.tp", "times.layer.forward"})
        if (problems.empty() && origins.count(key) == 0)
            problems.add(file.path, key,
                         "is needed: this is no profile; write one with escalier plan JOB --measure");
    problems.throw_if_any();
    return profile;
}

void require_same_work(const Profile& profile, const JobSpec& spec, const std::string& file) {
    const auto refuse = [&](const std::string& what) {
        throw ConfigError("profile " + file + " was measured with " + what +
                          "; measure this job with escalier plan JOB --measure --out " + file);
    };
    // Every layer takes the same time, so how many there are does not matter.
    ModelConfig measured = profile.model, wanted = spec.model;
    measured.preset = wanted.preset;
    measured.num_layers = wanted.num_layers;
    if (const std::string what = difference(measured, wanted); !what.empty()) refuse("model." + what);
    const Profile::Sizes& s = profile.sizes;
    Profile::Sizes job = {spec.parallel.tp, spec.train.micro_batch, spec.train.seq_len,
                          spec.train.dtype == "auto" ? s.dtype : spec.train.dtype};
    if (const std::string what = difference(s, job); !what.empty()) refuse(what);
    if (spec.run.threads && *spec.run.threads != profile.machine.threads)
        refuse("threads " + std::to_string(profile.machine.threads) + ", but the job has run.threads " +
               std::to_string(*spec.run.threads));
}

}  // namespace escalier::config
