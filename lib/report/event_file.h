// TensorBoard's event files: records of scalars that TensorBoard reads and follows, written without its
// libraries.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace escalier::report {

struct Scalar {
    std::string_view tag;
    double value;
};

class EventFile {
 public:
    // A new file in `folder`, events.out.tfevents.<time>.<host>.<process>.<number>. first_step above 1:
    // readers forget what files before this one say about that step and later ones. Throws IoError (write).
    EventFile(const std::string& folder, std::int64_t first_step);

    // One record, flushed. unix_time: in seconds. Values that are not finite are left out.
    void write(std::int64_t step, double unix_time, const std::vector<Scalar>& scalars);

    const std::string& path() const { return path_; }

 private:
    void record(const std::string& event);

    std::string path_;
    std::ofstream out_;
};

// The parts of a record, for tests: length, its checksum, data, its checksum.
std::string event_record(std::string_view event);
// Of the first record; of a step's scalars; of a start at a step.
std::string version_event(double unix_time);
std::string scalar_event(double unix_time, std::int64_t step, const std::vector<Scalar>& scalars);
std::string start_event(double unix_time, std::int64_t step);

}  // namespace escalier::report
