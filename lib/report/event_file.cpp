#include "report/event_file.h"

#include <isa-l/crc.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/clock.h"
#include "core/error.h"

namespace escalier::report {

namespace {

// Protocol buffers, as far as an event needs them: a key is field number * 8 + wire type.
enum Wire : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
}

void put_key(std::string& out, unsigned field, Wire wire) {
    put_varint(out, field * 8 + wire);
}

template <class T>
void put_little_endian(std::string& out, T value) {
    std::array<char, sizeof value> raw;
    std::memcpy(raw.data(), &value, sizeof value);
    out.append(raw.data(), raw.size());
}

void put_bytes(std::string& out, unsigned field, std::string_view content) {
    put_key(out, field, Wire::bytes);
    put_varint(out, content.size());
    out += content;
}

// Field numbers of TensorFlow's event.proto and summary.proto.
namespace event {
constexpr unsigned wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace summary {
constexpr unsigned value = 1;
}
namespace value {
constexpr unsigned tag = 1, simple_value = 2;
}
namespace session_log {
constexpr unsigned status = 1;
constexpr std::uint64_t start = 1;
}  // namespace session_log

std::string begin_event(double unix_time, std::int64_t step) {
    std::string out;
    put_key(out, event::wall_time, Wire::fixed64);
    put_little_endian(out, unix_time);
    if (step == 0) return out;
    put_key(out, event::step, Wire::varint);
    put_varint(out, static_cast<std::uint64_t>(step));
    return out;
}

// CRC-32C, turned and moved so that a checksum of data that holds checksums is no weaker.
std::uint32_t masked_checksum(std::string_view data) {
    std::string copy(data);  // the library's interface asks for writable memory
    const std::uint32_t sum =
        ~crc32_iscsi(reinterpret_cast<unsigned char*>(copy.data()), static_cast<int>(copy.size()), ~0u);
    return (sum >> 15 | sum << 17) + 0xa282ead8;
}

}  // namespace

std::string version_event(double unix_time) {
    std::string out = begin_event(unix_time, 0);
    put_bytes(out, event::file_version, "brain.Event:2");
    return out;
}

std::string scalar_event(double unix_time, std::int64_t step, const std::vector<Scalar>& scalars) {
    std::string list;
    for (const Scalar& scalar : scalars) {
        if (!std::isfinite(scalar.value)) continue;
        std::string one;
        put_bytes(one, value::tag, scalar.tag);
        put_key(one, value::simple_value, Wire::fixed32);
        put_little_endian(one, static_cast<float>(scalar.value));
        put_bytes(list, summary::value, one);
    }
    std::string out = begin_event(unix_time, step);
    put_bytes(out, event::summary, list);
    return out;
}

std::string start_event(double unix_time, std::int64_t step) {
    std::string status;
    put_key(status, session_log::status, Wire::varint);
    put_varint(status, session_log::start);
    std::string out = begin_event(unix_time, step);
    put_bytes(out, event::session_log, status);
    return out;
}

std::string event_record(std::string_view event) {
    std::string out;
    put_little_endian(out, static_cast<std::uint64_t>(event.size()));
    put_little_endian(out, masked_checksum(out));
    out += event;
    put_little_endian(out, masked_checksum(event));
    return out;
}

EventFile::EventFile(const std::string& folder, std::int64_t first_step) {
    char host[HOST_NAME_MAX + 1] = "host";
    gethostname(host, sizeof host - 1);
    const double now = unix_seconds();
    // Readers take the files of a folder in the order of their names; a second run may begin in the same
    // second.
    for (int number = 0;; ++number) {
        path_ = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, static_cast<std::int64_t>(now),
                            host, getpid(), number);
        if (!std::filesystem::exists(path_)) break;
    }
    out_.open(path_, std::ios::binary);
    record(version_event(now));
    if (first_step > 1) record(start_event(now, first_step));
}

void EventFile::write(std::int64_t step, double unix_time, const std::vector<Scalar>& scalars) {
    record(scalar_event(unix_time, step, scalars));
}

void EventFile::record(const std::string& event) {
    out_ << event_record(event) << std::flush;
    if (!out_) throw IoError::write(path_ + " cannot be written: " + std::strerror(errno));
}

}  // namespace escalier::report
