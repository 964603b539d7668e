#include "core/compute_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace escalier {
namespace {

TEST(ComputePool, RunsEveryTaskOnceForAnyNumberOfThreads) {
    for (int threads : {1, 2, 3, 8}) {
        ComputePool pool(threads);
        for (int tasks : {0, 1, 2, 7, 1000}) {
            std::vector<std::atomic<int>> counts(static_cast<std::size_t>(tasks));
            pool.parallel_for(tasks, [&](std::int64_t task, int thread) {
                ASSERT_GE(thread, 0);
                ASSERT_LT(thread, threads);
                counts[static_cast<std::size_t>(task)].fetch_add(1);
            });
            for (auto& count : counts) EXPECT_EQ(count.load(), 1);
        }
    }
}

TEST(ComputePool, ManyShortLoopsInARow) {
    ComputePool pool(2);
    std::atomic<std::int64_t> sum{0};
    for (int i = 0; i < 20000; ++i) pool.parallel_for(3, [&](std::int64_t task, int) { sum += task; });
    EXPECT_EQ(sum.load(), 20000 * 3);
}

}  // namespace
}  // namespace escalier
