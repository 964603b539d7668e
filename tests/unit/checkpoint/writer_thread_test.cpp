#include "checkpoint/writer_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <future>
#include <stdexcept>
#include <string>

namespace escalier::checkpoint {
namespace {

constexpr double long_s = 60;

TEST(WriterThread, RunsOneTaskAfterTheOtherOnAThreadOfThatName) {
    WriterThread writer;
    EXPECT_TRUE(writer.idle());
    std::string name;
    std::promise<void> go;
    writer.start([&] {
        char text[16];
        pthread_getname_np(pthread_self(), text, sizeof text);
        name = text;
        go.get_future().wait();
    });
    EXPECT_FALSE(writer.idle());
    go.set_value();
    EXPECT_TRUE(writer.idle(long_s));
    EXPECT_EQ(name, "writer");
    int runs = 0;
    writer.start([&] { ++runs; });
    EXPECT_TRUE(writer.idle(long_s));
    EXPECT_EQ(runs, 1);
}

TEST(WriterThread, KeepsWhatATaskThrewUntilTheNextOne) {
    WriterThread writer;
    writer.start([] { throw std::runtime_error("full"); });
    EXPECT_TRUE(writer.idle(long_s));
    EXPECT_TRUE(writer.failure());
    EXPECT_THROW(std::rethrow_exception(writer.failure()), std::runtime_error);
    writer.start([] {});
    EXPECT_TRUE(writer.idle(long_s));
    EXPECT_FALSE(writer.failure());
}

TEST(WriterThread, ItsEndWaitsForTheTask) {
    bool done = false;
    {
        WriterThread writer;
        writer.start([&] { done = true; });
    }
    EXPECT_TRUE(done);
}

}  // namespace
}  // namespace escalier::checkpoint
