#include "checkpoint/file_hash.h"

#include <cstdio>

// In the header's own code, so that it is compiled for the processor this program is for.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/read_blocks.h"

namespace escalier::checkpoint {

struct FileHash::State {
    alignas(64) XXH3_state_t hash;
};

FileHash::FileHash() : state_(std::make_unique<State>()) {
    XXH3_128bits_reset(&state_->hash);
}

FileHash::~FileHash() = default;

void FileHash::add(const void* data, std::size_t bytes) {
    XXH3_128bits_update(&state_->hash, data, bytes);
}

std::string FileHash::hex() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->hash));
    std::string out;
    for (const unsigned char byte : canonical.digest) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", byte);
        out += digits;
    }
    return out;
}

std::string hash_of_file(const std::string& path) {
    FileHash hash;
    read_blocks(path, [&](const char* data, std::size_t bytes) { hash.add(data, bytes); });
    return hash.hex();
}

}  // namespace escalier::checkpoint
