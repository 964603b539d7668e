// What the kinds say about sizes that they do not take.
#include <algorithm>

#include "schedule/generators/kinds.h"

namespace escalier::schedule::generators {
namespace {

std::string several_chunks_problem(const GenerateOptions& options, const std::string& with_one_chunk) {
    if (options.chunks > 1) return "";
    return "it needs two or more chunks per rank, found chunks " + std::to_string(options.chunks) +
           "; set chunks to 2 or more, or use schedule " + with_one_chunk;
}

std::string group_problem(const GenerateOptions& options) {
    const int most = options.micro_batches, least = std::min(options.pp, most);
    if (options.group == 0 || (options.group >= least && options.group <= most)) return "";
    std::string range = "all " + std::to_string(most) + " micro-batches";
    if (least < most)
        range = "from " + std::to_string(least) + " (pipeline ranks) to " + std::to_string(most) +
                " (micro-batches)";
    return "its group size must be " + range + ", found group " + std::to_string(options.group) + "; use " +
           std::to_string(std::clamp(options.group, least, most)) + " or leave it out";
}

}  // namespace

std::string one_chunk_problem(const GenerateOptions& options) {
    if (options.chunks == 1) return "";
    return "it has one chunk per rank, found chunks " + std::to_string(options.chunks) +
           "; leave chunks at 1";
}

std::string two_chunks_problem(const GenerateOptions& options) {
    if (options.chunks == 2) return "";
    return "it has two chunks per rank, found chunks " + std::to_string(options.chunks) + "; set chunks to 2";
}

std::string bfs_problem(const GenerateOptions& options) {
    return several_chunks_problem(options, "gpipe");
}

std::string interleaved_problem(const GenerateOptions& options) {
    const std::string problem = several_chunks_problem(options, "1f1b");
    return problem.empty() ? group_problem(options) : problem;
}

std::string interleaved_zb_problem(const GenerateOptions& options) {
    const std::string problem = several_chunks_problem(options, "zb-h1");
    return problem.empty() ? group_problem(options) : problem;
}

std::string dualpipe_problem(const GenerateOptions& options) {
    if (options.chunks != 2) return two_chunks_problem(options);
    if (options.pp % 2 != 0) {
        const std::string below = options.pp > 1 ? std::to_string(options.pp - 1) + " or " : "";
        return "its pipeline ranks must be even, found " + std::to_string(options.pp) + "; use " + below +
               std::to_string(options.pp + 1) + ", or schedule dualpipev";
    }
    if (options.micro_batches < 2)
        return "it feeds micro-batches in at both ends of the pipeline, found micro-batches " +
               std::to_string(options.micro_batches) + "; use 2 or more, or schedule dualpipev";
    return "";
}

}  // namespace escalier::schedule::generators
