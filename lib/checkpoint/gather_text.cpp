#include "checkpoint/gather_text.h"

namespace escalier::checkpoint {

std::vector<std::string> all_gather_text(const std::string& text, comm::Communicator& group,
                                         const char* label) {
    if (group.size() == 1) return {text};
    int longest = static_cast<int>(text.size());
    group.all_reduce_max(TensorView(&longest, DType::i32, {1}), label);
    std::string padded = text;
    padded.resize(static_cast<std::size_t>(longest), ' ');
    std::string all(static_cast<std::size_t>(longest) * static_cast<std::size_t>(group.size()), ' ');
    group.all_gather(TensorView(all.data(), DType::u8, {static_cast<std::int64_t>(all.size())}),
                     TensorView(padded.data(), DType::u8, {longest}), label);
    std::vector<std::string> texts;
    for (std::size_t begin = 0; begin < all.size(); begin += static_cast<std::size_t>(longest))
        texts.push_back(all.substr(begin, static_cast<std::size_t>(longest)));
    return texts;
}

}  // namespace escalier::checkpoint
