// A library for LD_PRELOAD that lets file operations below a folder fail, stall, or end the process, as a
// full disk, a broken one, or a power cut would. The environment says what; without it nothing changes:
//
//   FAULTY_FILES="under=/data/runs;match=step_;op=write;after_bytes=4096;do=ENOSPC;rank=1"
//
// - under=PATH: absolute; operations on paths that begin with it count
// - match=TEXT: of those, the ones whose path holds this text
// - op=KIND: write, sync (fsync, fdatasync), rename, open (for writing), remove (unlink, rmdir), mkdir;
//   any of these (any); flock; lock (flock and the locks of fcntl)
// - at=N: the N-th such operation of the process and all that follow are at fault; default 1
// - after_bytes=N: op=write instead of at: what is written before goes through, so that a write is cut short
// - do=NAME: an errno (EACCES EDQUOT EFBIG EIO ENOLCK ENOSPC EROFS), kill (SIGKILL before the operation),
//   kill_after (right after it), sleep, or nothing
// - ms=N, ms_per_mb=N: do=sleep: so long before each operation, or for what a write holds
// - rank=N: this rank of the job alone
// - log=PATH: a line "rank kind path" for each operation that counts
//
// Calls go straight to the kernel: the library works before and below the sanitizers' own.
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace {

constexpr std::size_t longest_path = 4096;

enum class Fault { nothing, error, kill, kill_after, sleep };

struct Rule {
    bool active = false;
    char under[longest_path] = "", match[256] = "", op[16] = "any", log[longest_path] = "";
    long at = 1, after_bytes = -1, ms = 0, ms_per_mb = 0;
    int rank = -1, own_rank = -1;
    Fault fault = Fault::nothing;
    int error = 0;
    std::atomic<long> operations{0}, bytes{0};
};

struct ErrorName {
    const char* name;
    int error;
};
constexpr ErrorName errors[] = {{"EACCES", EACCES}, {"EDQUOT", EDQUOT}, {"EFBIG", EFBIG}, {"EIO", EIO},
                                {"ENOLCK", ENOLCK}, {"ENOSPC", ENOSPC}, {"EROFS", EROFS}};

[[noreturn]] void refuse(const char* text) {
    dprintf(2, "FAULTY_FILES: not understood: %s\n", text);
    _exit(99);
}

void set_fault(Rule& rule, const char* name) {
    if (!strcmp(name, "nothing")) return;
    if (!strcmp(name, "kill"))
        rule.fault = Fault::kill;
    else if (!strcmp(name, "kill_after"))
        rule.fault = Fault::kill_after;
    else if (!strcmp(name, "sleep"))
        rule.fault = Fault::sleep;
    else {
        for (const ErrorName& known : errors)
            if (!strcmp(name, known.name)) rule.error = known.error;
        if (!rule.error) refuse(name);
        rule.fault = Fault::error;
    }
}

void set(Rule& rule, const char* key, const char* value) {
    const auto text = [&](char* to, std::size_t capacity) {
        if (strlen(value) >= capacity) refuse(value);
        memcpy(to, value, strlen(value) + 1);
    };
    if (!strcmp(key, "under"))
        text(rule.under, sizeof rule.under);
    else if (!strcmp(key, "match"))
        text(rule.match, sizeof rule.match);
    else if (!strcmp(key, "op"))
        text(rule.op, sizeof rule.op);
    else if (!strcmp(key, "log"))
        text(rule.log, sizeof rule.log);
    else if (!strcmp(key, "at"))
        rule.at = atol(value);
    else if (!strcmp(key, "after_bytes"))
        rule.after_bytes = atol(value);
    else if (!strcmp(key, "ms"))
        rule.ms = atol(value);
    else if (!strcmp(key, "ms_per_mb"))
        rule.ms_per_mb = atol(value);
    else if (!strcmp(key, "rank"))
        rule.rank = atoi(value);
    else if (!strcmp(key, "do"))
        set_fault(rule, value);
    else
        refuse(key);
}

void read_environment(Rule& rule) {
    const char* text = getenv("FAULTY_FILES");
    const char* rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank) rule.own_rank = atoi(rank);
    if (!text) return;
    char copy[2 * longest_path];
    if (strlen(text) >= sizeof copy) refuse("it is too long");
    memcpy(copy, text, strlen(text) + 1);
    char* rest = copy;
    while (char* item = strsep(&rest, ";")) {
        char* value = strchr(item, '=');
        if (!value) refuse(item);
        *value = '\0';
        set(rule, item, value + 1);
    }
    rule.active = rule.under[0] == '/' && (rule.rank < 0 || rule.rank == rule.own_rank);
}

Rule& rule() {
    static Rule the_rule;
    static const bool read = (read_environment(the_rule), true);
    (void)read;
    return the_rule;
}

void sleep_ms(long ms) {
    timespec left{ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

void note(const Rule& r, const char* kind, const char* path) {
    if (!r.log[0]) return;
    char line[longest_path + 64];
    const int length = snprintf(line, sizeof line, "%d %s %s\n", r.own_rank, kind, path);
    const int log =
        static_cast<int>(syscall(SYS_openat, AT_FDCWD, r.log, O_WRONLY | O_CREAT | O_APPEND, 0666));
    if (log < 0) refuse(r.log);
    syscall(SYS_write, log, line, static_cast<std::size_t>(std::min<int>(length, sizeof line - 1)));
    syscall(SYS_close, log);
}

bool counts(const Rule& r, const char* kind, const char* path) {
    const bool locks = !strcmp(kind, "flock") || !strcmp(kind, "lock");
    return (!strcmp(r.op, locks ? "lock" : "any") || !strcmp(r.op, kind)) &&
           !strncmp(path, r.under, strlen(r.under)) && strstr(path, r.match);
}

// The absolute path of what a call names.
void find_path(int directory, const char* path, char* out) {
    if (path[0] == '/') {
        snprintf(out, longest_path, "%s", path);
        return;
    }
    char base[longest_path / 2] = "";
    char link[64] = "/proc/self/cwd";
    if (directory != AT_FDCWD) snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    const long length = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
    base[std::max(length, 0L)] = '\0';
    snprintf(out, longest_path, "%s/%.2000s", base, path);
}

// One operation: decides before it, and acts after it.
class Operation {
 public:
    Operation(const char* kind, int directory, const char* path) {
        if (!rule().active) return;
        char whole[longest_path];
        find_path(directory, path, whole);
        begin(kind, whole);
    }
    // On an open file. bytes: that a write would write; lowered where it is to be cut short.
    Operation(const char* kind, int descriptor, std::size_t* bytes = nullptr) : bytes_(bytes) {
        if (!rule().active) return;
        const int error = errno;
        char link[64], path[longest_path];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        const long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
        path[std::max(length, 0L)] = '\0';
        errno = error;
        if (length > 0) begin(kind, path);
    }
    // Whether the operation fails; errno is set.
    bool fails() const {
        if (fails_) errno = rule().error;
        return fails_;
    }
    long end(long result) const {
        if (dies_after_) raise(SIGKILL);
        return result;
    }

 private:
    void begin(const char* kind, const char* path) {
        Rule& r = rule();
        if (!counts(r, kind, path)) return;
        note(r, kind, path);
        if (!at_fault(r)) return;
        if (r.fault == Fault::kill) raise(SIGKILL);
        if (r.fault == Fault::sleep)
            sleep_ms(r.ms + (bytes_ ? static_cast<long>(*bytes_) * r.ms_per_mb / 1000000 : 0));
        fails_ = r.fault == Fault::error;
        dies_after_ = r.fault == Fault::kill_after;
    }

    bool at_fault(Rule& r) {
        if (r.after_bytes < 0 || !bytes_) return ++r.operations >= r.at;
        const long before = r.bytes.fetch_add(static_cast<long>(*bytes_));
        const long room = std::max(0L, r.after_bytes - before);
        if (static_cast<long>(*bytes_) <= room) return false;
        if (room == 0) return true;
        *bytes_ = static_cast<std::size_t>(room);  // the next write finds no room
        dies_after_ = r.fault == Fault::kill;      // with a part written
        return false;
    }

    std::size_t* bytes_ = nullptr;
    bool fails_ = false;
    bool dies_after_ = false;
};

bool for_writing(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY;
}

int open_at(int directory, const char* path, int flags, mode_t mode) {
    if (!for_writing(flags)) return static_cast<int>(syscall(SYS_openat, directory, path, flags, mode));
    const Operation operation("open", directory, path);
    if (operation.fails()) return -1;
    return static_cast<int>(operation.end(syscall(SYS_openat, directory, path, flags, mode)));
}

int rename_at(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
    const Operation operation("rename", to_directory, to);
    if (operation.fails()) return -1;
    return static_cast<int>(
        operation.end(syscall(SYS_renameat2, from_directory, from, to_directory, to, flags)));
}

int unlink_at(int directory, const char* path, int flags) {
    const Operation operation("remove", directory, path);
    if (operation.fails()) return -1;
    return static_cast<int>(operation.end(syscall(SYS_unlinkat, directory, path, flags)));
}

int control(int descriptor, int command, void* argument) {
    if (command == F_OFD_SETLK) {
        const Operation operation("lock", descriptor);
        if (operation.fails()) return -1;
    }
    return static_cast<int>(syscall(SYS_fcntl, descriptor, command, argument));
}

mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_at(directory, path, flags, mode);
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
    const Operation operation("write", descriptor, &bytes);
    if (operation.fails()) return -1;
    return operation.end(syscall(SYS_write, descriptor, data, bytes));
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
    const Operation operation("write", descriptor, &bytes);
    if (operation.fails()) return -1;
    return operation.end(syscall(SYS_pwrite64, descriptor, data, bytes, offset));
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
    std::size_t all = 0;
    for (int i = 0; i < count; ++i) all += parts[i].iov_len;
    std::size_t bytes = all;
    const Operation operation("write", descriptor, &bytes);
    if (operation.fails()) return -1;
    if (bytes == all) return operation.end(syscall(SYS_writev, descriptor, parts, count));
    return operation.end(
        syscall(SYS_write, descriptor, parts[0].iov_base, std::min(bytes, parts[0].iov_len)));
}

int flock(int descriptor, int how) {
    const Operation operation("flock", descriptor);
    if (operation.fails()) return -1;
    return static_cast<int>(operation.end(syscall(SYS_flock, descriptor, how)));
}

int fcntl(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* const argument = va_arg(arguments, void*);  // or a number of no more bytes, or none
    va_end(arguments);
    return control(descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* const argument = va_arg(arguments, void*);  // or a number of no more bytes, or none
    va_end(arguments);
    return control(descriptor, command, argument);
}

int fsync(int descriptor) {
    const Operation operation("sync", descriptor);
    if (operation.fails()) return -1;
    return static_cast<int>(operation.end(syscall(SYS_fsync, descriptor)));
}

int fdatasync(int descriptor) {
    const Operation operation("sync", descriptor);
    if (operation.fails()) return -1;
    return static_cast<int>(operation.end(syscall(SYS_fdatasync, descriptor)));
}

int rename(const char* from, const char* to) {
    return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
    return rename_at(from_directory, from, to_directory, to, 0);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
    return rename_at(from_directory, from, to_directory, to, flags);
}

int unlink(const char* path) {
    return unlink_at(AT_FDCWD, path, 0);
}

int unlinkat(int directory, const char* path, int flags) {
    return unlink_at(directory, path, flags);
}

int rmdir(const char* path) {
    return unlink_at(AT_FDCWD, path, AT_REMOVEDIR);
}

int remove(const char* path) {
    const int result = unlink(path);
    return result < 0 && errno == EISDIR ? rmdir(path) : result;
}

int mkdir(const char* path, mode_t mode) {
    const Operation operation("mkdir", AT_FDCWD, path);
    if (operation.fails()) return -1;
    return static_cast<int>(operation.end(syscall(SYS_mkdirat, AT_FDCWD, path, mode)));
}

}  // extern "C"
