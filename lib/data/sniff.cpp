// What data.format: auto goes by: the names for Megatron pairs, magic numbers, then the extension.
#include <sys/stat.h>

#include <array>

#include "core/error.h"
#include "data/flat_file.h"
#include "data/little_endian.h"
#include "data/megatron_file.h"
#include "data/token_file.h"

namespace escalier::data {
namespace {

bool is_file(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

FileFormat sniff_format(const std::string& path) {
    const std::string prefix = megatron_prefix(path);
    const bool exact = is_file(path);
    const bool pair = is_file(prefix + ".idx");
    if (pair && (prefix != path || !exact)) return FileFormat::megatron;
    if (!exact) {
        struct stat status {};
        if (::stat(path.c_str(), &status) == 0)
            throw IoError::read(
                path + ": is a folder, pipe or device; data.train takes a file or a Megatron prefix");
        throw IoError::read(path + ": no such file, and no " + prefix + ".bin and " + prefix + ".idx either");
    }
    const MappedFile file(path);
    if (has_llmc_magic(file)) return FileFormat::llmc;
    if (has_megatron_magic(file))
        throw DataError(path + ": is a Megatron index; name it " + path +
                        ".idx beside its .bin and give the prefix");
    if (file.size() >= 2 && load<std::uint16_t>(file.data()) == 0x8b1f)
        throw DataError(path + ": is gzip-compressed; unpack it first (gunzip)");
    const auto ends_with = [&](const char* end) { return path.ends_with(end); };
    if (ends_with(".jsonl") || ends_with(".ndjson") || ends_with(".json")) return FileFormat::jsonl;
    if (ends_with(".txt") || ends_with(".text") || ends_with(".md")) return FileFormat::text;
    throw ConfigError("data.format: auto cannot tell the format of " + path +
                      " (no known magic number or ending); set data.format (data info: --format) to raw16, "
                      "raw32, text or jsonl");
}

}  // namespace escalier::data
