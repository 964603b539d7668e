// One exception type per kind of failure. main() catches them, agrees over all ranks, prints one message and
// ends with the exit code of the kind (design: "Errors").
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace escalier {

enum class ExitCode : int {
    ok = 0,             // all steps done
    failed = 1,         // the run failed
    usage = 2,          // usage or job spec wrong
    data_corrupt = 65,  // data or checkpoint corrupt or mismatched
    input_missing = 66,
    device = 69,  // device or GPU count wrong
    write_failed = 74,
    stopped_early = 75  // by a signal or time limit, with a checkpoint saved
};

// What every message holds: the file and line or the flag, the value found, the rule, one way to mend it.
class Error : public std::runtime_error {
 public:
    Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    ExitCode code() const { return code_; }

 private:
    ExitCode code_;
};

struct ConfigError : Error {
    explicit ConfigError(const std::string& message) : Error(ExitCode::usage, message) {}
};
// Content that is corrupt or does not match (exit 65).
struct DataError : Error {
    explicit DataError(const std::string& message) : Error(ExitCode::data_corrupt, message) {}
};
// A file that cannot be read (exit 66) or written (exit 74).
struct IoError : Error {
    static IoError read(const std::string& message) { return IoError(ExitCode::input_missing, message); }
    static IoError write(const std::string& message) { return IoError(ExitCode::write_failed, message); }

 private:
    using Error::Error;
};
struct CommError : Error {
    explicit CommError(const std::string& message) : Error(ExitCode::failed, message) {}
};
struct DeviceError : Error {
    explicit DeviceError(const std::string& message) : Error(ExitCode::device, message) {}
};
struct NumericError : Error {
    explicit NumericError(const std::string& message) : Error(ExitCode::failed, message) {}
};
// A broken promise inside Escalier itself.
struct InternalError : Error {
    explicit InternalError(const std::string& message) : Error(ExitCode::failed, message) {}
};

// What a process that caught an exception says and ends with.
struct Failure {
    ExitCode code;
    std::string message;
};
// An Error says so itself. A path of which the system tells nothing, as std::filesystem throws it, counts as
// missing input.
Failure failure_of(const std::exception& error);

}  // namespace escalier
