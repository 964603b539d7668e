#include "data/fingerprint.h"

#include <cstring>

namespace escalier::data {
namespace {

std::uint64_t hash_block(const std::byte* bytes, std::int64_t size, std::uint64_t hash) {
    std::int64_t i = 0;
    for (; i + 8 <= size; i += 8) {
        std::uint64_t word;
        std::memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x9FB21C651E98DF25ull;
        hash ^= hash >> 32;
    }
    std::uint64_t tail = 0;
    if (i < size) std::memcpy(&tail, bytes + i, static_cast<std::size_t>(size - i));
    return mix(hash, tail);
}

}  // namespace

std::uint64_t hash_contents(const std::byte* bytes, std::int64_t size) {
    constexpr std::int64_t blocks = 64;
    constexpr std::int64_t block = std::int64_t{1} << 20;
    std::uint64_t hash = mix(0, static_cast<std::uint64_t>(size));
    if (size <= blocks * block) return hash_block(bytes, size, hash);
    for (std::int64_t i = 0; i < blocks; ++i) {
        // (size - block) / (blocks - 1) * i in two parts, so that nothing overflows.
        const std::int64_t span = size - block;
        const std::int64_t begin = span / (blocks - 1) * i + span % (blocks - 1) * i / (blocks - 1);
        hash = hash_block(bytes + begin, block, hash);
    }
    return hash;
}

}  // namespace escalier::data
