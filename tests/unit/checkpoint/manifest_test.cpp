#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace escalier::checkpoint {
namespace {

using nlohmann::json;

// A matrix [4, 6] in two pieces and a vector [3], with moments.
Manifest small_manifest() {
    Manifest manifest;
    RunState& run = manifest.run;
    run.step = 10;
    run.updates = 9;
    run.consumed_samples = 80;
    run.consumed_tokens = 1280;
    run.seed = -5;
    run.dataset_fingerprint = "0123456789abcdef";
    run.tool_version = "1.0 (\xe2\x82\xac)";
    run.tp = 2;
    run.schedule = "1f1b";
    run.optimizer = "adamw";
    run.loss_window = {0.1, 1e-300, 3};
    manifest.files = {{"weights-00000.safetensors", 200, std::string(32, 'a')},
                      {"optim-00000.safetensors", 400, std::string(32, '0')}};
    for (const StateKind kind : all_state_kinds) {
        const std::size_t file = kind == StateKind::weight ? 0 : 1;
        const auto piece = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                               const Block& block) {
            manifest.tensors[name].shape = shape;
            manifest.tensors[name].pieces[static_cast<std::size_t>(kind)].push_back(
                {file, piece_key(name, kind, shape, block), block});
        };
        piece("m.weight", {4, 6}, {0, 0, 4, 2});
        piece("m.weight", {4, 6}, {0, 2, 4, 4});
        piece("v.bias", {3}, {0, 0, 1, 3});
    }
    return manifest;
}

// Without its hash, so that what is wrong with a value comes out.
json unhashed_manifest() {
    json root = json::parse(small_manifest().text());
    root.erase("xxh3_128");
    return root;
}

std::string refusal(const std::string& text) {
    try {
        parse_manifest(text, "RUN/manifest.json");
    } catch (const DataError& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find("RUN/manifest.json: "), 0u) << message;
        return message;
    }
    return "accepted";
}

// One value at a time is replaced.
void expect_refused(const std::string& pointer, const json& value, const std::string& reason) {
    json root = unhashed_manifest();
    root[json::json_pointer(pointer)] = value;
    EXPECT_NE(refusal(root.dump()).find(reason), std::string::npos)
        << pointer << " " << value << ": " << refusal(root.dump());
}

TEST(Manifest, IsReadAsItWasWritten) {
    const Manifest manifest = small_manifest();
    EXPECT_TRUE(parse_manifest(manifest.text(), "m") == manifest);
    Manifest weights_alone = manifest;
    weights_alone.run.optimizer = "none";
    for (auto& [name, tensor] : weights_alone.tensors) tensor.pieces[1].clear(), tensor.pieces[2].clear();
    EXPECT_TRUE(parse_manifest(weights_alone.text(), "m") == weights_alone);
}

TEST(Manifest, NamesPiecesByTheirPlace) {
    EXPECT_EQ(piece_key("w", StateKind::weight, {4, 6}, {0, 0, 4, 6}), "w");
    EXPECT_EQ(piece_key("w", StateKind::weight, {4, 6}, {1, 2, 3, 4}), "w[1:4,2:6]");
    EXPECT_EQ(piece_key("w", StateKind::exp_avg, {4}, {0, 1, 1, 2}), "w.exp_avg[1:3]");
    EXPECT_EQ(piece_key("w", StateKind::exp_avg_sq, {4}, {0, 0, 1, 4}), "w.exp_avg_sq");
}

TEST(Manifest, EveryFieldIsMissed) {
    const json whole = unhashed_manifest();
    int removed = 0;
    const auto visit = [&](const auto& self, const json& value, const json::json_pointer& at) -> void {
        if (!value.is_structured()) return;
        for (const auto& [key, inner] : value.items()) {
            const auto place = value.is_array() ? at / static_cast<std::size_t>(std::stoul(key)) : at / key;
            self(self, inner, place);
            json damaged = whole;
            json& holder = damaged[at];
            if (value.is_array())
                holder.erase(static_cast<std::size_t>(std::stoul(key)));
            else
                holder.erase(key);
            // Without all of an entry there is another, whole manifest.
            const bool optional = at.to_string() == "/loss_window" || at.to_string() == "/tensors";
            EXPECT_EQ(refusal(damaged.dump()) == "accepted", optional) << place;
            ++removed;
        }
    };
    visit(visit, whole, json::json_pointer());
    EXPECT_GT(removed, 80);
}

TEST(Manifest, EveryFieldOfAnotherTypeIsRefused) {
    const json whole = unhashed_manifest();
    const json flat = whole.flatten();
    for (const auto& [pointer, value] : flat.items())
        for (const json& other :
             {json(nullptr), json(true), json(json::object()), json(json::array({json::array()})),
              value.is_string() ? json(7) : json("7"), json(-1.5), json("../x"), json(UINT64_MAX)}) {
            const std::string name = pointer.substr(0, pointer.rfind('/'));
            if (name == "/loss_window" && other.is_number()) continue;
            if ((pointer == "/tool_version" || pointer == "/schedule") && other.is_string()) continue;
            json damaged = whole;
            damaged[json::json_pointer(pointer)] = other;
            if (pointer.find("/key") != std::string::npos && other.is_string())
                continue;  // any text, see the reader
            EXPECT_NE(refusal(damaged.dump()), "accepted") << pointer << " " << other;
        }
}

TEST(Manifest, SaysWhatIsWrong) {
    expect_refused("/format", "other", "its format is not 'escalier-checkpoint'");
    expect_refused("/version", 2, "its version is 2; this program reads version 1");
    expect_refused("/step", -1, "manifest.step is -1, not a whole number from 0 to 99999999");
    expect_refused("/updates", 11, "manifest.updates is 11, not a whole number from 0 to 10");
    expect_refused("/dataset_fingerprint", "xyz", "'xyz', not 16 hexadecimal digits");
    expect_refused("/grid/tp", 0, "grid.tp is 0");
    expect_refused("/optimizer", "adam", "optimizer is 'adam'; known: adamw, sgd, none");
    expect_refused("/loss_window/0", "a", "manifest.loss_window holds \"a\", not a number");
    expect_refused("/files/0/name", "../weights", "'../weights', not a plain file name");
    expect_refused("/files/0/name", ".hidden", "not a plain file name");
    expect_refused("/files/1/name", "weights-00000.safetensors", "names 'weights-00000.safetensors' twice");
    expect_refused("/files/0/xxh3_128", "aa", "'aa', not 32 hexadecimal digits");
    expect_refused("/news", 1, "unknown key 'news'");
    expect_refused("/files/0/news", 1, "files[0] has the unknown key 'news'");
    expect_refused("/tensors/v.bias/weight/0/file", "x", "is 'x', which files lacks");
    expect_refused("/tensors/v.bias/shape", {1, 1, 3}, "not one or two numbers");
    expect_refused("/tensors/v.bias/shape", {0}, "not a whole number from 1");
    expect_refused("/tensors/v.bias/shape", {INT64_MAX}, "more than 2^63 bytes");
    expect_refused("/tensors/v.bias/weight/0/offset/0", 1, "lies outside its tensor");
    expect_refused("/tensors/v.bias/weight/0/offset/0", INT64_MAX, "lies outside its tensor");
    expect_refused("/tensors/v.bias/weight/0/shape", {1, 3}, "another number of axes than its tensor");
    expect_refused("/tensors/v.bias/weight/0/shape/0", 2, "weight of tensor 'v.bias' leave parts of it out");
    expect_refused("/tensors/m.weight/weight/1/offset/1", 1, "weight of tensor 'm.weight' overlap");
    expect_refused("/tensors/m.weight/exp_avg/1/shape/0", 3,
                   "exp_avg of tensor 'm.weight' leave parts of it out");
    expect_refused("/tensors/v.bias/weight/0/key", "m.weight[0:4,0:2]",
                   "use the key 'm.weight[0:4,0:2]' twice");
    expect_refused("/optimizer", "sgd", "exp_avg of tensor 'm.weight' is there, but the optimizer is sgd");
    EXPECT_NE(refusal("{").find("is not valid JSON"), std::string::npos);
    EXPECT_NE(refusal("").find("is not valid JSON"), std::string::npos);
    EXPECT_NE(refusal("[]").find("its format"), std::string::npos);
}

TEST(Manifest, AnyDigitThatIsAnotherIsRefused) {
    const std::string text = small_manifest().text();
    int changed = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] < '0' || text[i] > '9') continue;
        std::string damaged = text;
        damaged[i] = text[i] == '9' ? '8' : static_cast<char>(text[i] + 1);
        EXPECT_NE(refusal(damaged), "accepted") << damaged.substr(i < 40 ? 0 : i - 40, 80);
        ++changed;
    }
    EXPECT_GT(changed, 200);
    json other_samples = json::parse(text);
    other_samples["consumed_samples"] = 81;
    EXPECT_NE(refusal(other_samples.dump()).find("something in it was changed after it was written"),
              std::string::npos);
}

TEST(Manifest, HasAHashOfWhatItSaysNotOfHowItIsLaidOut) {
    const json root = json::parse(small_manifest().text());
    EXPECT_TRUE(parse_manifest(root.dump(), "m") == small_manifest());
    EXPECT_TRUE(parse_manifest(root.dump(7), "m") == small_manifest());
    EXPECT_TRUE(parse_manifest(unhashed_manifest().dump(), "m") == small_manifest())
        << "from before it had one";
    json odd = root;
    odd["xxh3_128"] = "abc";
    EXPECT_NE(refusal(odd.dump()).find("manifest.xxh3_128 is 'abc', not 32 hexadecimal digits"),
              std::string::npos);
}

TEST(Manifest, AnyCutIsRefused) {
    const std::string text = small_manifest().text();
    for (std::size_t bytes = 0; bytes + 2 < text.size(); ++bytes)
        EXPECT_NE(refusal(text.substr(0, bytes)), "accepted");
}

}  // namespace
}  // namespace escalier::checkpoint
