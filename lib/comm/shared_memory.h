// Memory that the ranks of one node share. It has no name in any file system, so nothing is left behind
// however a job ends, and the size of /dev/shm does not matter.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

namespace escalier::comm {

class SharedMemory {
 public:
    // Collective over `comm`. Null, on all ranks alike, where they cannot share memory (several nodes).
    static std::unique_ptr<SharedMemory> create(MPI_Comm comm, std::size_t bytes);
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    char* data() const { return data_; }  // zero-filled at first, page-aligned

 private:
    SharedMemory(char* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
    char* data_;
    std::size_t bytes_;
};

}  // namespace escalier::comm
