#include "core/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "tests/harness/temp_folder.h"

namespace escalier {
namespace {

TEST(FileLock, OneHolderAtATimeAndItEndsWithIt) {
    const test::TempFolder folder;
    const std::string path = folder.path() + "/.lock";
    const int first = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    const int second = open(path.c_str(), O_RDWR | O_CLOEXEC);
    const int reader = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(std::min({first, second, reader}), 0);
    EXPECT_FALSE(is_file_locked(reader));
    EXPECT_EQ(try_lock(first), FileLock::taken);
    EXPECT_EQ(try_lock(second), FileLock::held);
    EXPECT_TRUE(is_file_locked(reader));
    close(first);
    EXPECT_FALSE(is_file_locked(reader));
    EXPECT_EQ(try_lock(second), FileLock::taken) << "a look is no lock";
    close(second);
    close(reader);
}

TEST(FileLock, LooksKeepNobodyOut) {
    const test::TempFolder folder;
    const std::string path = folder.path() + "/.lock";
    close(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
    std::atomic<bool> over = false;
    std::thread watcher([&] {
        const int reader = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        while (!over) is_file_locked(reader);
        close(reader);
    });
    for (int start = 0; start < 300; ++start) {
        const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
        EXPECT_EQ(try_lock(file), FileLock::taken);
        close(file);
    }
    over = true;
    watcher.join();
}

}  // namespace
}  // namespace escalier
