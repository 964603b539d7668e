#include "comm/broadcast_text.h"

namespace escalier::comm {

void broadcast_text(std::string& text, Communicator& group, const char* label) {
    int size = static_cast<int>(text.size());
    group.broadcast(TensorView(&size, DType::i32, {1}), 0, label);
    text.resize(static_cast<std::size_t>(size));
    if (size > 0) group.broadcast(TensorView(text.data(), DType::u8, {size}), 0, label);
}

}  // namespace escalier::comm
