#include "comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <random>
#include <string>

#include "comm/mpi_check.h"

namespace escalier::comm {

namespace {

// How the first rank tells the others where its memory is. The token proves that they opened the right one: a
// process number means something else in another container.
struct Where {
    std::int64_t process = 0;
    std::int64_t descriptor = -1;
    std::uint64_t token = 0;
};

bool on_one_node(MPI_Comm comm) {
    MPI_Comm node = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type");
    int size = 0, node_size = 0;
    MPI_Comm_size(comm, &size);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_free(&node);
    int same = size == node_size, all = 0;
    check_mpi(MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
    return all != 0;
}

char* map(int descriptor, std::size_t bytes) {
    struct stat file;
    if (descriptor < 0 || fstat(descriptor, &file) != 0 || file.st_size != static_cast<off_t>(bytes))
        return nullptr;
    void* raw = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return raw == MAP_FAILED ? nullptr : static_cast<char*>(raw);
}

int create_memory(std::size_t bytes) {
    const int descriptor = memfd_create("escalier", MFD_CLOEXEC);
    if (descriptor < 0) return -1;
    if (ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) return descriptor;
    close(descriptor);
    return -1;
}

}  // namespace

std::unique_ptr<SharedMemory> SharedMemory::create(MPI_Comm comm, std::size_t bytes) {
    if (!on_one_node(comm)) return nullptr;
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    Where where;
    int descriptor = -1;
    char* data = nullptr;
    if (rank == 0) {
        descriptor = create_memory(bytes);
        data = map(descriptor, bytes);
        where = {getpid(), data ? descriptor : -1, std::random_device{}()};
        if (data) *reinterpret_cast<std::uint64_t*>(data) = where.token;
    }
    check_mpi(MPI_Bcast(&where, sizeof where, MPI_BYTE, 0, comm), "MPI_Bcast");
    if (rank != 0 && where.descriptor >= 0) {
        const std::string path =
            "/proc/" + std::to_string(where.process) + "/fd/" + std::to_string(where.descriptor);
        descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
        data = map(descriptor, bytes);
    }
    int mine = data && *reinterpret_cast<std::uint64_t*>(data) == where.token, all = 0;
    check_mpi(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
    if (descriptor >= 0) close(descriptor);
    if (!all) {
        if (data) munmap(data, bytes);
        return nullptr;
    }
    if (rank == 0) *reinterpret_cast<std::uint64_t*>(data) = 0;
    check_mpi(MPI_Barrier(comm), "MPI_Barrier");
    return std::unique_ptr<SharedMemory>(new SharedMemory(data, bytes));
}

SharedMemory::~SharedMemory() {
    munmap(data_, bytes_);
}

}  // namespace escalier::comm
