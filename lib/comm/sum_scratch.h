// What sums over ranks need of memory, for those that carry them out and for those that plan.
#pragma once

#include <algorithm>
#include <cstdint>

namespace escalier::comm {

// Sums by messages (message_lane.cpp): a tensor of so few elements, over all ranks together, is exchanged
// whole.
constexpr std::int64_t message_whole_elements = 32768;
constexpr std::int64_t message_chunk_elements = std::int64_t{1}
                                                << 18;  // of a piece that is under way at once

constexpr bool exchanged_whole(std::int64_t elements, int size) {
    return size == 2 || elements * size <= message_whole_elements;
}
// Of one of two pieces under way: what every other rank sends of it.
constexpr std::int64_t message_piece_scratch(std::int64_t elements, int size, std::int64_t chunk_elements) {
    const std::int64_t chunk = std::min(chunk_elements, elements);
    const std::int64_t piece = exchanged_whole(elements, size) ? chunk : chunk / size + 1;
    return (size - 1) * piece;
}
constexpr std::int64_t message_scratch(std::int64_t elements, int size, std::int64_t chunk_elements) {
    return 2 * message_piece_scratch(elements, size, chunk_elements);
}
// Over all sizes of tensors.
constexpr std::int64_t largest_message_scratch(int size, std::int64_t chunk_elements) {
    return std::max(message_scratch(message_whole_elements / size, size, chunk_elements),
                    message_scratch(std::max(chunk_elements, message_whole_elements), size, chunk_elements));
}

// Sums through memory that the ranks of a node share (shared_lane.cpp): each rank has two slots, an input of
// slot_bytes and a result of one piece.
constexpr std::int64_t shared_slot_bytes = 512 * 1024;
constexpr std::int64_t shared_background_slot_bytes = 1024 * 1024;
constexpr std::int64_t shared_slots = 2;
constexpr std::int64_t shared_slot_stride(int size, std::int64_t slot_bytes) {
    return slot_bytes + (slot_bytes / size + 3 * 64) / 64 * 64;
}

}  // namespace escalier::comm
