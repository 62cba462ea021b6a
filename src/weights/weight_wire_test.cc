// The promises of testing/weight_wire_contract.h on shared memory and files, and what each of them
// has of its own. On the broker: tests/weight_ways_test.cc.
#include "weights/weight_wire.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "testing/weight_wire_contract.h"
#include "weights/folder_place.h"
#include "weights/shm_weights.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kIncarnation = 77;

std::unique_ptr<WeightSink> FileSink(const std::string& dir, size_t whole_every = 16) {
  return VersionLogSink::Create(NewFolderPlace(dir), {.whole_every = whole_every}).value();
}
std::unique_ptr<WeightSource> FileSource(const std::string& dir) {
  return NewVersionLogSource(NewFolderPlace(dir));
}

class ShmWay final : public WeightWay {
 public:
  std::unique_ptr<WeightSink> Sink() override {
    auto sink = ShmWeightSink::Create(5 * kSampleNumbers, kIncarnation).value();
    location_ = sink->location();
    return sink;
  }
  std::unique_ptr<WeightSource> Source() override {
    auto source = OpenShmWeights(location_, kIncarnation);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return std::move(*source);
  }
  std::string location() const override { return location_; }
  void set_location(const std::string& location) override { location_ = location; }

 private:
  std::string location_;
};

std::unique_ptr<WeightWay> FolderWay(size_t whole_every) {
  auto folder = std::make_shared<TemporaryDirectory>();
  return std::make_unique<ObjectsWay>([dir = folder->path()] { return NewFolderPlace(dir); },
                                      whole_every, folder);
}

const WeightWayCase kShmCase = {"SharedMemory", [] { return std::make_unique<ShmWay>(); }};
const WeightWayCase kFileCases[] = {
    {"Files", [] { return FolderWay(16); }},
    {"WholeFiles", [] { return FolderWay(1); }, 64, 100},
    {"FilesOfDeltas", [] { return FolderWay(16); }, 64, 100},
};

std::string CaseName(const testing::TestParamInfo<WeightWayCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Memory, WeightWire, testing::Values(kShmCase), CaseName);
INSTANTIATE_TEST_SUITE_P(Folder, WeightWire, testing::ValuesIn(kFileCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Folder, WeightObjects, testing::ValuesIn(kFileCases), CaseName);

TEST(WeightFiles, AFileThatDoesNotCheckOutIsNamedAndTheNextVersionTaken) {
  const TemporaryDirectory directory;
  const std::string& dir = directory.path();
  const auto sink = FileSink(dir, 1);
  const auto source = FileSource(dir);
  WeightBuffers buffers;
  ASSERT_TRUE(sink->Put(1, 1, *SampleWeights(1).parts).ok());
  const std::string path = dir + "/weights-00000001.safetensors";
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(5000).put('x');
  Status wrong = source->NewerThan(0, buffers).status();
  EXPECT_EQ(wrong.code(), Code::kCorrupt);
  EXPECT_THAT(wrong.message(), HasSubstr("weights-00000001.safetensors: its checksum"));
  fs::resize_file(path, 5000);
  wrong = source->NewerThan(0, buffers).status();
  EXPECT_EQ(wrong.code(), Code::kCorrupt);
  EXPECT_THAT(wrong.message(), HasSubstr("has 5000 bytes"));
  fs::remove(path);
  EXPECT_EQ(source->NewerThan(0, buffers).status().code(), Code::kNotFound);
  ASSERT_TRUE(sink->Put(2, 2, *SampleWeights(2).parts).ok());
  EXPECT_EQ(WholeVersion(source->NewerThan(0, buffers).value()), 2u);
  for (const char* manifest :
       {"not json", "{}", R"({"version":9,"location":"../../etc/passwd"})"}) {
    std::ofstream(dir + "/newest.json") << manifest;
    EXPECT_EQ(source->NewerThan(0, buffers).status().code(), Code::kCorrupt) << manifest;
  }
}

TEST(WeightFiles, OldVersionsAndLeftoversGo) {
  const TemporaryDirectory directory;
  const std::string& dir = directory.path();
  std::ofstream(dir + "/weights-00000009.safetensors.part") << "half";
  std::ofstream(dir + "/weights-00000008.safetensors") << "old";
  std::ofstream(dir + "/notes.txt") << "somebody's";
  const auto sink = FileSink(dir, 1);
  for (uint64_t version = 1; version <= 5; ++version)
    ASSERT_TRUE(sink->Put(version, version, *SampleWeights(version, 100).parts).ok());
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(dir)) files.push_back(entry.path().filename());
  EXPECT_THAT(files, testing::UnorderedElementsAre("notes.txt", "newest.json",
                                                   "weights-00000004.safetensors",
                                                   "weights-00000005.safetensors"));
}

TEST(WeightFiles, AFullDiskLeavesTheVersionBefore) {
  const TemporaryDirectory directory;
  const std::string& dir = directory.path();
  const auto sink = FileSink(dir, 1);
  ASSERT_TRUE(sink->Put(1, 1, *SampleWeights(1, 100).parts).ok());
  // As a full disk does it: the write fails half way.
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(sink->Put(2, 2, *SampleWeights(2).parts).ok() ? 1 : 0);
  }
  int status = 1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << "the write did not fail";
  WeightBuffers buffers;
  EXPECT_EQ(WholeVersion(FileSource(dir)->NewerThan(0, buffers).value()), 1u);
  EXPECT_FALSE(fs::exists(dir + "/weights-00000002.safetensors.part"));
  ASSERT_TRUE(sink->Put(3, 3, *SampleWeights(3).parts).ok());
  EXPECT_EQ(WholeVersion(FileSource(dir)->NewerThan(0, buffers).value()), 3u);
}

// Nothing is left of a publisher but what its subscribers hold.
TEST(ShmWeights, GoWithTheirPublisher) {
  auto sink = ShmWeightSink::Create(5 * kSampleNumbers, kIncarnation).value();
  const std::string location = sink->location();
  ASSERT_TRUE(sink->Put(1, 1, *SampleWeights(1).parts).ok());
  const auto source = OpenShmWeights(location, kIncarnation).value();
  sink.reset();
  EXPECT_EQ(OpenShmWeights(location, kIncarnation).status().code(), Code::kNotFound);
  WeightBuffers buffers;
  EXPECT_EQ(WholeVersion(source->NewerThan(0, buffers).value()), 1u);
}

TEST(ShmWeights, WhatDoesNotCheckOutIsRefusedAndTheNextVersionTaken) {
  const auto sink = ShmWeightSink::Create(5 * kSampleNumbers, kIncarnation).value();
  WeightBuffers buffers;
  const auto source = OpenShmWeights(sink->location(), kIncarnation).value();
  ASSERT_TRUE(sink->Put(1, 1, *SampleWeights(1).parts).ok());
  const int fd = open(sink->location().c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  // A byte in each slot, wherever the version is.
  for (const off_t at : {off_t{9000}, off_t{9000 + 5 * kSampleNumbers}})
    ASSERT_EQ(pwrite(fd, "x", 1, at), 1);
  close(fd);
  const Status wrong = source->NewerThan(0, buffers).status();
  EXPECT_EQ(wrong.code(), Code::kCorrupt);
  EXPECT_THAT(wrong.message(), HasSubstr("version 1"));
  ASSERT_TRUE(sink->Put(2, 2, *SampleWeights(2).parts).ok());
  EXPECT_EQ(WholeVersion(source->NewerThan(0, buffers).value()), 2u);
}

TEST(ShmWeights, WhatWasNotAnnouncedIsRefused) {
  const auto sink = ShmWeightSink::Create(100, kIncarnation).value();
  EXPECT_EQ(OpenShmWeights(sink->location(), kIncarnation + 1).status().code(), Code::kCorrupt);
  EXPECT_EQ(OpenShmWeights("/proc/self/exe", kIncarnation).status().code(), Code::kCorrupt);
  EXPECT_EQ(OpenShmWeights("/proc/999999999/fd/3", kIncarnation).status().code(), Code::kNotFound);
  EXPECT_EQ(sink->Put(1, 1, *SampleWeights(1).parts).code(), Code::kInvalid);
  EXPECT_EQ(ShmDomain(), ShmDomain());
  EXPECT_GT(ShmDomain().size(), 30u);
}

}  // namespace
}  // namespace tidemill
