// A library for LD_PRELOAD that counts the memory a process takes, below and beside its own counting: by the
// calls for it. At its end each rank writes COUNTED_MEMORY/RANK.txt:
//
//   arena BYTES     a private mapping of the program itself that it asked huge pages for (madvise), in the
//                   order of the calls, of those alive when most were
//   private BYTES   the most that the program's own private mappings, whatever for, came to then
//   shared BYTES    the most that its own shared mappings without a file's name came to
//   heap BYTES      the most that malloc and its kin had handed out, to the program and its libraries;
//                   0 where a sanitizer has a heap of its own
//
// Mappings count for the program when the call comes from its own code: what libraries map for themselves is
// none of its arenas. Calls go straight to the kernel, and the library allocates nothing.
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace {

struct Mapping {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;  // as mapped; whole pages
    std::size_t asked = 0;  // in madvise; 0: no arena
    bool shared = false;
};

constexpr int most_mappings = 4096;
constexpr std::size_t page = 4096;

struct Counts {
    std::mutex mutex;
    std::uintptr_t code_begin = ~std::uintptr_t{0}, code_end = 0;  // of the program
    Mapping live[most_mappings];
    int mappings = 0;
    std::size_t arena_bytes = 0, shared_bytes = 0;
    std::size_t most_private = 0, most_arenas = 0, most_shared = 0;
    std::size_t arenas[most_mappings];  // alive when most were
    int arena_count = 0;
};

Counts& counts() {
    static Counts all;
    return all;
}

std::atomic<std::int64_t> heap{0}, most_heap{0};

std::size_t whole_pages(std::size_t bytes) {
    return (bytes + page - 1) / page * page;
}

// The first object is the program.
int find_code(dl_phdr_info* object, std::size_t, void*) {
    Counts& c = counts();
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = object->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
        const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
        if (begin < c.code_begin) c.code_begin = begin;
        if (begin + segment.p_memsz > c.code_end) c.code_end = begin + segment.p_memsz;
    }
    return 1;
}

bool of_program(const void* caller) {
    Counts& c = counts();
    if (c.code_end == 0) dl_iterate_phdr(find_code, nullptr);
    const auto at = reinterpret_cast<std::uintptr_t>(caller);
    return at >= c.code_begin && at < c.code_end;
}

std::size_t sum(bool shared) {
    std::size_t bytes = 0;
    const Counts& c = counts();
    for (int i = 0; i < c.mappings; ++i)
        if (c.live[i].shared == shared) bytes += c.live[i].bytes;
    return bytes;
}

void add(void* memory, std::size_t bytes, bool shared) {
    Counts& c = counts();
    const std::lock_guard lock(c.mutex);
    if (c.mappings == most_mappings) _exit(99);
    c.live[c.mappings++] = {reinterpret_cast<std::uintptr_t>(memory), whole_pages(bytes), 0, shared};
    if (shared && sum(true) > c.most_shared) c.most_shared = sum(true);
}

void erase(int i) {
    Counts& c = counts();
    for (--c.mappings; i < c.mappings; ++i) c.live[i] = c.live[i + 1];
}

// A mapping may lose its head or its tail.
void remove(std::uintptr_t begin, std::size_t bytes) {
    Counts& c = counts();
    const std::lock_guard lock(c.mutex);
    const std::uintptr_t end = begin + whole_pages(bytes);
    for (int i = 0; i < c.mappings; ++i) {
        Mapping& m = c.live[i];
        if (begin >= m.begin + m.bytes || end <= m.begin) continue;
        if (begin <= m.begin && end >= m.begin + m.bytes) return erase(i);
        if (begin <= m.begin) {
            m.bytes -= end - m.begin;
            m.begin = end;
        } else {
            m.bytes = begin - m.begin;
        }
        return;
    }
}

void mark_arena(std::uintptr_t begin, std::size_t asked) {
    Counts& c = counts();
    const std::lock_guard lock(c.mutex);
    std::size_t bytes = 0;
    for (int i = 0; i < c.mappings; ++i) {
        Mapping& m = c.live[i];
        if (m.begin == begin && !m.shared && m.bytes == whole_pages(asked)) m.asked = asked;
        bytes += m.asked;
    }
    if (bytes < c.most_arenas) return;
    c.most_arenas = bytes;
    c.most_private = sum(false);
    c.arena_count = 0;
    for (int i = 0; i < c.mappings; ++i)
        if (c.live[i].asked) c.arenas[c.arena_count++] = c.live[i].asked;
}

[[gnu::destructor]] void report() {
    const char* folder = getenv("COUNTED_MEMORY");
    const char* rank = getenv("OMPI_COMM_WORLD_RANK");
    Counts& c = counts();
    if (!folder || !rank || c.arena_count == 0) return;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.txt", folder, rank);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) return;
    for (int i = 0; i < c.arena_count; ++i) dprintf(file, "arena %zu\n", c.arenas[i]);
    dprintf(file, "private %zu\nshared %zu\nheap %lld\n", c.most_private, c.most_shared,
            static_cast<long long>(most_heap.load()));
    close(file);
}

}  // namespace

extern "C" {

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
    const long result = syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
    void* memory = reinterpret_cast<void*>(result);
    if (result == -1 || !(protection & PROT_WRITE) || !of_program(__builtin_return_address(0))) return memory;
    struct stat facts {};
    const bool anonymous = flags & MAP_ANONYMOUS;
    const bool unnamed = anonymous || (fstat(file, &facts) == 0 && facts.st_nlink == 0);
    if (unnamed) add(memory, bytes, (flags & MAP_SHARED) != 0);
    return memory;
}

int munmap(void* memory, std::size_t bytes) noexcept {
    if (of_program(__builtin_return_address(0))) remove(reinterpret_cast<std::uintptr_t>(memory), bytes);
    return static_cast<int>(syscall(SYS_munmap, memory, bytes));
}

int madvise(void* memory, std::size_t bytes, int advice) noexcept {
    if (advice == MADV_HUGEPAGE && of_program(__builtin_return_address(0)))
        mark_arena(reinterpret_cast<std::uintptr_t>(memory), bytes);
    return static_cast<int>(syscall(SYS_madvise, memory, bytes, advice));
}

#ifndef COUNTED_MEMORY_WITHOUT_HEAP
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

}  // extern "C"

namespace {

void* taken(void* memory) {
    if (!memory) return memory;
    const std::int64_t now = heap += static_cast<std::int64_t>(malloc_usable_size(memory));
    std::int64_t most = most_heap.load();
    while (now > most && !most_heap.compare_exchange_weak(most, now)) {
    }
    return memory;
}

void given(void* memory) {
    if (memory) heap -= static_cast<std::int64_t>(malloc_usable_size(memory));
}

}  // namespace

extern "C" {

void* malloc(std::size_t bytes) {
    return taken(__libc_malloc(bytes));
}
void* calloc(std::size_t count, std::size_t bytes) {
    return taken(__libc_calloc(count, bytes));
}
void* realloc(void* memory, std::size_t bytes) {
    const auto before = static_cast<std::int64_t>(memory ? malloc_usable_size(memory) : 0);
    void* after = __libc_realloc(memory, bytes);
    if (after || bytes == 0) heap -= before;
    return taken(after);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
    return taken(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
    return taken(__libc_memalign(alignment, bytes));
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
    void* found = taken(__libc_memalign(alignment, bytes));
    if (!found) return ENOMEM;
    *memory = found;
    return 0;
}
void free(void* memory) {
    given(memory);
    __libc_free(memory);
}
#endif

}  // extern "C"
