// Readers of files that come from outside, each as a function of the bytes alone.
#pragma once

#include <array>
#include <string_view>

namespace escalier::fuzz {

// Reads `input`, and everything that can be asked about it, to the end. Throws what the reader throws.
using Read = void (*)(std::string_view input);

void safetensors(std::string_view input);         // a whole file
void safetensors_header(std::string_view input);  // the header's text; length and data are added
void megatron_index(std::string_view input);      // a count of tokens (u16), then the .idx
void token_file(std::string_view input);          // a format (one byte), then the file
void job_spec(std::string_view input);            // YAML
void job_override(std::string_view input);        // what follows --set
void schedule_csv(std::string_view input);
void checkpoint_manifest(std::string_view input);  // beside a weights file of two tensors
void checkpoint_latest(std::string_view input);    // the file `latest` of a run with one checkpoint
void hf_config(std::string_view input);            // config.json of a Hugging Face model
void hf_index(std::string_view input);             // model.safetensors.index.json beside two shards
void run_folder(std::string_view input);           // metrics.jsonl; its first line is run.json, too

struct Target {
    std::string_view name;  // also of its folder in corpus/
    Read read;
};
inline constexpr std::array targets = {
    Target{"safetensors", safetensors},
    Target{"safetensors_header", safetensors_header},
    Target{"megatron_index", megatron_index},
    Target{"token_file", token_file},
    Target{"job_spec", job_spec},
    Target{"job_override", job_override},
    Target{"schedule_csv", schedule_csv},
    Target{"checkpoint_manifest", checkpoint_manifest},
    Target{"checkpoint_latest", checkpoint_latest},
    Target{"hf_config", hf_config},
    Target{"hf_index", hf_index},
    Target{"run_folder", run_folder},
};

// Whether the reader took the input; false if it refused it with one of the errors that users are shown.
// Anything else is a defect of the reader, and leaves as the exception that it is.
bool accepts(const Target& target, std::string_view input);

}  // namespace escalier::fuzz
