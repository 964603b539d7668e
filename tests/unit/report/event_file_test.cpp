#include "report/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "core/error.h"
#include "tests/harness/temp_folder.h"

namespace escalier::report {
namespace {

std::string hex(const std::string& bytes) {
    std::string text;
    for (const char c : bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        text += digits;
    }
    return text;
}

// Decoded with protoc, see the shared format notes: records of TensorFlow's own writer.
TEST(EventFile, RecordsAreTensorFlowsOwn) {
    EXPECT_EQ(hex(event_record(version_event(1.0))),
              "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
    EXPECT_EQ(hex(event_record(scalar_event(1.0, 300, {{"loss", 2.5}}))),
              "1b000000000000001a0d9e1309000000000000f03f10ac022a0d0a0b0a046c6f737315000020404fbc4ddb");
}

TEST(EventFile, AStartNamesItsStepAndStatus) {
    EXPECT_EQ(hex(start_event(1.0, 300)), "09000000000000f03f10ac023a020801");
}

TEST(EventFile, WhatIsNotFiniteIsLeftOut) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(scalar_event(1.0, 2, {{"a", nan}, {"loss", 2.5}, {"b", INFINITY}}),
              scalar_event(1.0, 2, {{"loss", 2.5}}));
}

TEST(EventFile, FilesOfOneSecondAreTwoAndALaterOneSaysWhereItGoesOn) {
    const test::TempFolder folder;
    EventFile first(folder.path(), 1), second(folder.path(), 7);
    EXPECT_NE(first.path(), second.path());
    const auto bytes = [](const EventFile& file) {
        std::ifstream in(file.path(), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const std::size_t version = event_record(version_event(0)).size();
    EXPECT_EQ(bytes(first).size(), version);
    EXPECT_EQ(bytes(second).size(), version + event_record(start_event(0, 7)).size());
    first.write(1, 2.0, {{"loss", 0.5}});
    EXPECT_EQ(bytes(first).substr(version), event_record(scalar_event(2.0, 1, {{"loss", 0.5}})));
}

TEST(EventFile, AFolderThatIsNotThereIsAWriteErrorThatNamesTheFile) {
    try {
        EventFile(test::TempFolder() / "no/such/folder", 1);
        FAIL();
    } catch (const IoError& error) {
        EXPECT_EQ(error.code(), ExitCode::write_failed);
        EXPECT_NE(std::string(error.what()).find("no/such/folder/events.out.tfevents."), std::string::npos);
    }
}

}  // namespace
}  // namespace escalier::report
