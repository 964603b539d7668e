// Numbers as token files hold them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace escalier::data {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

// A little-endian number at any address: the headers of token files are not aligned.
template <class T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

}  // namespace escalier::data
