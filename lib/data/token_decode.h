// Stored ids of any width to 32-bit ids, with the range check in the same pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/mapped_file.h"
#include "data/little_endian.h"
#include "data/token_file.h"

namespace escalier::data {

// Returns the index of the first id outside [0, vocab_size), or -1 when all are good. vocab_size <= 2^31.
template <class T>
std::int64_t decode_as(const std::byte* from, std::int64_t count, std::int64_t vocab_size,
                       std::int32_t* out) {
    const std::uint64_t limit = static_cast<std::uint64_t>(vocab_size);
    bool bad = false;
    for (std::int64_t i = 0; i < count; ++i) {
        const T id = load<T>(from + i * static_cast<std::int64_t>(sizeof(T)));
        // A negative id becomes a huge unsigned one, so one comparison covers both ends.
        bad |= static_cast<std::uint64_t>(static_cast<std::int64_t>(id)) >= limit;
        out[i] = static_cast<std::int32_t>(id);
    }
    if (!bad) return -1;
    for (std::int64_t i = 0; i < count; ++i) {
        const T id = load<T>(from + i * static_cast<std::int64_t>(sizeof(T)));
        if (static_cast<std::uint64_t>(static_cast<std::int64_t>(id)) >= limit) return i;
    }
    return -1;
}

inline std::int64_t decode(TokenType type, const std::byte* from, std::int64_t count, std::int64_t vocab_size,
                           std::int32_t* out) {
    switch (type) {
        case TokenType::u8:
            return decode_as<std::uint8_t>(from, count, vocab_size, out);
        case TokenType::i8:
            return decode_as<std::int8_t>(from, count, vocab_size, out);
        case TokenType::i16:
            return decode_as<std::int16_t>(from, count, vocab_size, out);
        case TokenType::u16:
            return decode_as<std::uint16_t>(from, count, vocab_size, out);
        case TokenType::i32:
            return decode_as<std::int32_t>(from, count, vocab_size, out);
        case TokenType::u32:
            return decode_as<std::uint32_t>(from, count, vocab_size, out);
        case TokenType::i64:
            return decode_as<std::int64_t>(from, count, vocab_size, out);
    }
    return 0;
}

// The id as it is stored.
inline std::int64_t stored_id(TokenType type, const std::byte* from) {
    switch (type) {
        case TokenType::u8:
            return load<std::uint8_t>(from);
        case TokenType::i8:
            return load<std::int8_t>(from);
        case TokenType::i16:
            return load<std::int16_t>(from);
        case TokenType::u16:
            return load<std::uint16_t>(from);
        case TokenType::i32:
            return load<std::int32_t>(from);
        case TokenType::u32:
            return load<std::uint32_t>(from);
        case TokenType::i64:
            return load<std::int64_t>(from);
    }
    return 0;
}

}  // namespace escalier::data
