// Locks of whole files, between processes; the system gives them up with the process that holds them.
#pragma once

namespace escalier {

enum class FileLock {
    taken,
    held,        // by another
    impossible,  // the file system knows no locks; errno says what it said
};

// Takes an open file for this process alone, if no other has it. Where flock() does not work, as on some
// network file systems, the file's bytes are locked instead (fcntl).
FileLock try_lock(int descriptor);

// Whether another process has it; false too where that cannot be told.
bool is_file_locked(int descriptor);

}  // namespace escalier
