#include "core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace escalier {

namespace {

// Of the open file, not of the process: closing another descriptor of the same file does not give it up.
struct flock all_bytes(short type) {
    struct flock range = {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    return range;
}

}  // namespace

FileLock try_lock(int descriptor) {
    // Another's is_file_locked() has it too, for a moment.
    constexpr int looks = 20;
    int result = 0;
    for (int look = 0; look < looks; ++look) {
        if (look > 0) usleep(1000);
        do result = flock(descriptor, LOCK_EX | LOCK_NB);
        while (result != 0 && errno == EINTR);
        if (result == 0) return FileLock::taken;
        if (errno != EWOULDBLOCK) break;
    }
    if (errno == EWOULDBLOCK) return FileLock::held;
    struct flock range = all_bytes(F_WRLCK);
    if (fcntl(descriptor, F_OFD_SETLK, &range) == 0) return FileLock::taken;
    return errno == EAGAIN || errno == EACCES ? FileLock::held : FileLock::impossible;
}

bool is_file_locked(int descriptor) {
    if (flock(descriptor, LOCK_SH | LOCK_NB) == 0) {
        flock(descriptor, LOCK_UN);
        return false;
    }
    if (errno == EWOULDBLOCK) return true;
    struct flock range = all_bytes(F_RDLCK);
    return fcntl(descriptor, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

}  // namespace escalier
