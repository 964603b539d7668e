#include "device/arena.h"

#include <gtest/gtest.h>

#include "device/mirror.h"

namespace escalier::device {
namespace {

void take_some(Arena& arena, std::vector<TensorView>& views) {
    views.push_back(arena.take(DType::f32, Shape{3}));
    views.push_back(arena.take(DType::bf16, Shape{100, 7}));
    views.push_back(arena.take(DType::f64, Shape{0}));
    views.push_back(arena.take(DType::u8, Shape{1}));
}

TEST(Arena, MeasuringHandsOutNoMemoryAndCounts) {
    Arena arena("activations");
    std::vector<TensorView> views;
    take_some(arena, views);
    EXPECT_TRUE(arena.measuring());
    for (const TensorView& view : views) EXPECT_FALSE(view.has_data());
    EXPECT_EQ(views[1].shape(), (Shape{100, 7}));
    EXPECT_EQ(arena.used(), 256u + 1536u + 0u + 256u);
}

TEST(Arena, HandsOutAlignedZeroedTensorsUpToTheMeasuredSize) {
    Arena measured("activations");
    std::vector<TensorView> views;
    take_some(measured, views);
    const auto device = make_cpu_device();
    Arena arena("activations", device->allocator(), measured.used());
    views.clear();
    take_some(arena, views);
    EXPECT_EQ(arena.used(), measured.used());
    for (const TensorView& view : views) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data()) % Arena::alignment, 0u);
        const auto* bytes = static_cast<const unsigned char*>(view.data());
        for (std::size_t i = 0; i < view.bytes(); ++i) ASSERT_EQ(bytes[i], 0);
    }
    EXPECT_GE(static_cast<char*>(views[1].data()) - static_cast<char*>(views[0].data()), 12);
    EXPECT_THROW(arena.take(DType::u8, Shape{1}), InternalError);
}

TEST(Arena, AllocatedArenasHaveTheMeasuredSizes) {
    Arenas measured = Arenas::measuring();
    measured.gradients.take(DType::f32, Shape{1000});
    measured.workspace.take(DType::f32, Shape{10});
    const auto device = make_cpu_device();
    Arenas allocated = Arenas::allocated(measured, device->allocator(), device->host_allocator());
    EXPECT_TRUE(allocated.gradients.take(DType::f32, Shape{1000}).has_data());
    EXPECT_THROW(allocated.gradients.take(DType::u8, Shape{1}), InternalError);
    EXPECT_THROW(allocated.parameters.take(DType::u8, Shape{1}), InternalError);
    EXPECT_EQ(measured.used(), 4096u + 256u);
}

TEST(Mirror, IsOnePieceOfMemoryOnTheCpu) {
    const auto device = make_cpu_device();
    Arenas measured = Arenas::measuring();
    Mirror::take(measured, *device, DType::i32, Shape{5});
    EXPECT_EQ(measured.host.used(), 256u);
    EXPECT_EQ(measured.data.used(), 0u);
    Arenas allocated = Arenas::allocated(measured, device->allocator(), device->host_allocator());
    const Mirror mirror = Mirror::take(allocated, *device, DType::i32, Shape{5});
    mirror.host.as<int>()[4] = 7;
    mirror.upload(*device);
    EXPECT_EQ(mirror.device.as<int>()[4], 7);
    mirror.download(*device);
    EXPECT_EQ(mirror.host.data(), mirror.device.data());
}

TEST(CpuDevice, SaysWhichArenaDoesNotFit) {
    const auto device = make_cpu_device();
    try {
        Arena("optimizer", device->allocator(), std::size_t{1} << 60);
        FAIL() << "an exabyte was there";
    } catch (const DeviceError& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("optimizer"), std::string::npos) << message;
        EXPECT_NE(message.find("1152921504606846976 bytes"), std::string::npos) << message;
    }
}

TEST(CpuDevice, Copies) {
    const auto device = make_cpu_device();
    Arena arena("data", device->allocator(), 256);
    const TensorView view = arena.take(DType::i32, Shape{3});
    const int in[3] = {1, 2, 3};
    int out[3] = {};
    device->copy_from_host(view.data(), in, sizeof in);
    device->synchronize();
    device->copy_to_host(out, view.data(), sizeof out);
    EXPECT_EQ(out[2], 3);
    EXPECT_EQ(device->description(), "cpu");
}

}  // namespace
}  // namespace escalier::device
