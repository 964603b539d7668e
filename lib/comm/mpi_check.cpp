#include "comm/mpi_check.h"

namespace escalier::comm {

void throw_mpi_error(int code, const char* call, int peer, const char* label) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::string message = call;
    if (peer >= 0) message += " with rank " + std::to_string(peer);
    if (label) message += " (" + std::string(label) + ")";
    throw CommError(message + " failed: " + text +
                    ". Look for a lost process or node in the messages before this one, then start again.");
}

int checked_count(std::int64_t count, const char* call) {
    if (count < 0 || count > std::numeric_limits<int>::max())
        throw CommError(std::string(call) + ": a message of " + std::to_string(count) +
                        " elements exceeds MPI's limit of 2147483647. Lower train.micro_batch.");
    return static_cast<int>(count);
}

}  // namespace escalier::comm
