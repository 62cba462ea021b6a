// What every way of weights between processes promises, run on shared memory and on files.
#include "weights/weight_wire.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "testing/test_kit.h"
#include "weights/folder_place.h"
#include "weights/shm_weights.h"
#include "weights/version_log.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kIncarnation = 77;
constexpr size_t kNumbers = 256 * 1024;  // of a version, 4 bytes each

// Weights of which every number is the version's.
struct Sample {
  explicit Sample(uint64_t version, size_t count = kNumbers)
      : numbers(count, static_cast<uint32_t>(version)) {
    const TensorView view = {.name = "w",
                             .dtype = Dtype::kF32,
                             .shape = {static_cast<int64_t>(count)},
                             .data = reinterpret_cast<const std::byte*>(numbers.data()),
                             .bytes = 4 * count};
    parts = LayOutSafetensors({&view, 1}, {{"format", "pt"}}, "sample").value();
  }
  std::vector<uint32_t> numbers;
  std::unique_ptr<const SafetensorsParts> parts;
};

// The version, if every number is its own.
uint64_t WholeVersion(const WeightBlob& blob) {
  const auto header = ParseSafetensors(blob.view(), "sample");
  EXPECT_TRUE(header.ok()) << header.status().ToString();
  if (!header.ok()) return 0;
  const TensorView& view = header->tensors.at(0);
  std::vector<uint32_t> numbers(view.bytes / 4);
  std::memcpy(numbers.data(), view.data, view.bytes);
  for (const uint32_t number : numbers) {
    if (number != blob.version) return 0;
  }
  return blob.version;
}

std::unique_ptr<WeightSink> FileSink(const std::string& dir, size_t whole_every = 16) {
  return VersionLogSink::Create(NewFolderPlace(dir), {.whole_every = whole_every}).value();
}
std::unique_ptr<WeightSource> FileSource(const std::string& dir) {
  return NewVersionLogSource(NewFolderPlace(dir));
}

class WeightWire : public testing::TestWithParam<bool> {
 protected:
  static bool shm() { return GetParam(); }

  // What a source of another process would be told.
  std::unique_ptr<WeightSink> MakeSink() {
    if (!shm()) return FileSink(dir_);
    auto sink = ShmWeightSink::Create(5 * kNumbers, kIncarnation).value();
    location_ = sink->location();
    return sink;
  }
  std::unique_ptr<WeightSource> MakeSource() {
    if (!shm()) return FileSource(dir_);
    auto source = OpenShmWeights(location_, kIncarnation);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return std::move(*source);
  }
  static Status Put(WeightSink& sink, uint64_t version) {
    return sink.Put(version, 10 * version, *Sample(version).parts);
  }

  TemporaryDirectory directory_;
  const std::string dir_ = directory_.path();
  std::string location_;
  WeightBuffers buffers_;
};

INSTANTIATE_TEST_SUITE_P(, WeightWire, testing::Bool(),
                         [](const auto& info) { return info.param ? "SharedMemory" : "Files"; });

TEST_P(WeightWire, GivesTheNewestVersionOnlyIfItIsNewer) {
  const auto sink = MakeSink();
  const auto source = MakeSource();
  EXPECT_EQ(source->NewerThan(0, buffers_)->version, 0u);
  for (const uint64_t version : {3, 4, 7}) ASSERT_TRUE(Put(*sink, version).ok());
  const auto blob = source->NewerThan(3, buffers_);
  ASSERT_TRUE(blob.ok()) << blob.status().ToString();
  EXPECT_EQ(WholeVersion(*blob), 7u);
  EXPECT_EQ(blob->step, 70u);
  EXPECT_EQ(source->NewerThan(7, buffers_)->version, 0u);
}

TEST_P(WeightWire, ASubscriberThatComesLateGetsTheNewest) {
  const auto sink = MakeSink();
  for (uint64_t version = 1; version <= 5; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  EXPECT_EQ(WholeVersion(MakeSource()->NewerThan(0, buffers_).value()), 5u);
}

TEST_P(WeightWire, VersionsOnlyRise) {
  const auto sink = MakeSink();
  ASSERT_TRUE(Put(*sink, 4).ok());
  EXPECT_EQ(Put(*sink, 4).code(), Code::kInvalid);
  EXPECT_EQ(Put(*sink, 3).code(), Code::kInvalid);
  EXPECT_EQ(WholeVersion(MakeSource()->NewerThan(0, buffers_).value()), 4u);
}

TEST_P(WeightWire, WhatWasTakenStaysAsItIsWhileOthersArePublished) {
  const auto sink = MakeSink();
  ASSERT_TRUE(Put(*sink, 1).ok());
  const auto source = MakeSource();
  const WeightBlob first = source->NewerThan(0, buffers_).value();
  for (uint64_t version = 2; version <= 6; ++version) ASSERT_TRUE(Put(*sink, version).ok());
  const WeightBlob last = source->NewerThan(1, buffers_).value();
  EXPECT_EQ(WholeVersion(first), 1u);
  EXPECT_EQ(WholeVersion(last), 6u);
}

TEST_P(WeightWire, WhatIsReadIsWholeHoweverFastThePublisherIs) {
  const auto sink = MakeSink();
  const auto source = MakeSource();
  std::atomic<bool> done{false};
  std::thread publisher([&] {
    for (uint64_t version = 1; version <= 300; ++version) ASSERT_TRUE(Put(*sink, version).ok());
    done = true;
  });
  uint64_t have = 0;
  while (have < 300) {
    const bool last = done;
    const auto blob = source->NewerThan(have, buffers_);
    ASSERT_TRUE(blob.ok()) << blob.status().ToString();
    ASSERT_FALSE(last && blob->version == 0) << "the last version was not given";
    if (blob->version == 0) continue;
    ASSERT_GT(blob->version, have);
    ASSERT_EQ(WholeVersion(*blob), blob->version);
    have = blob->version;
  }
  publisher.join();
}

TEST_P(WeightWire, ASleepingSubscriberIsWoken) {
  const auto sink = MakeSink();
  const auto source = MakeSource();
  std::thread publisher([&] { ASSERT_TRUE(Put(*sink, 1).ok()); });
  const auto began = std::chrono::steady_clock::now();
  while (source->NewerThan(0, buffers_)->version == 0) {
    source->WaitForNewer(0, std::chrono::seconds(20));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  publisher.join();
}

// A publisher of its own process, killed at any moment.
TEST_P(WeightWire, APublisherKilledWhileWritingLeavesTheLastWholeVersion) {
  std::mt19937 random(3);
  for (int round = 0; round < 6; ++round) {
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto sink = MakeSink();
      (void)!write(pipes[1], location_.data(), location_.size());
      close(pipes[1]);
      for (uint64_t version = 1;; ++version) (void)Put(*sink, version);
    }
    close(pipes[1]);
    char place[256] = {};
    (void)!read(pipes[0], place, sizeof place - 1);
    close(pipes[0]);
    location_ = place;
    // Opened before the end, like a worker that serves.
    std::unique_ptr<WeightSource> source = MakeSource();
    while (source->NewerThan(0, buffers_)->version == 0) {
      source->WaitForNewer(0, milliseconds(20));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    const auto blob = source->NewerThan(0, buffers_);
    ASSERT_TRUE(blob.ok()) << blob.status().ToString();
    EXPECT_GT(WholeVersion(*blob), 0u);
    if (shm()) {
      // Nothing is left of it but what its subscribers hold.
      EXPECT_EQ(OpenShmWeights(location_, kIncarnation).status().code(), Code::kNotFound);
    }
  }
  // The next publisher finds nothing in its way, and its versions are taken.
  const auto sink = MakeSink();
  EXPECT_EQ(MakeSource()->NewerThan(0, buffers_)->version, 0u);
  ASSERT_TRUE(Put(*sink, 1000000).ok());
  EXPECT_EQ(WholeVersion(MakeSource()->NewerThan(0, buffers_).value()), 1000000u);
}

TEST(WeightFiles, AFileThatDoesNotCheckOutIsNamedAndTheNextVersionTaken) {
  const TemporaryDirectory directory;
  const std::string& dir = directory.path();
  const auto sink = FileSink(dir, 1);
  const auto source = FileSource(dir);
  WeightBuffers buffers;
  ASSERT_TRUE(sink->Put(1, 1, *Sample(1).parts).ok());
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
  ASSERT_TRUE(sink->Put(2, 2, *Sample(2).parts).ok());
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
    ASSERT_TRUE(sink->Put(version, version, *Sample(version, 100).parts).ok());
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
  ASSERT_TRUE(sink->Put(1, 1, *Sample(1, 100).parts).ok());
  // As a full disk does it: the write fails half way.
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(sink->Put(2, 2, *Sample(2).parts).ok() ? 1 : 0);
  }
  int status = 1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << "the write did not fail";
  WeightBuffers buffers;
  EXPECT_EQ(WholeVersion(FileSource(dir)->NewerThan(0, buffers).value()), 1u);
  EXPECT_FALSE(fs::exists(dir + "/weights-00000002.safetensors.part"));
  ASSERT_TRUE(sink->Put(3, 3, *Sample(3).parts).ok());
  EXPECT_EQ(WholeVersion(FileSource(dir)->NewerThan(0, buffers).value()), 3u);
}

TEST(ShmWeights, WhatDoesNotCheckOutIsRefusedAndTheNextVersionTaken) {
  const auto sink = ShmWeightSink::Create(5 * kNumbers, kIncarnation).value();
  WeightBuffers buffers;
  const auto source = OpenShmWeights(sink->location(), kIncarnation).value();
  ASSERT_TRUE(sink->Put(1, 1, *Sample(1).parts).ok());
  const int fd = open(sink->location().c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  // A byte in each slot, wherever the version is.
  for (const off_t at : {off_t{9000}, off_t{9000 + 5 * kNumbers}})
    ASSERT_EQ(pwrite(fd, "x", 1, at), 1);
  close(fd);
  const Status wrong = source->NewerThan(0, buffers).status();
  EXPECT_EQ(wrong.code(), Code::kCorrupt);
  EXPECT_THAT(wrong.message(), HasSubstr("version 1"));
  ASSERT_TRUE(sink->Put(2, 2, *Sample(2).parts).ok());
  EXPECT_EQ(WholeVersion(source->NewerThan(0, buffers).value()), 2u);
}

TEST(ShmWeights, WhatWasNotAnnouncedIsRefused) {
  const auto sink = ShmWeightSink::Create(100, kIncarnation).value();
  EXPECT_EQ(OpenShmWeights(sink->location(), kIncarnation + 1).status().code(), Code::kCorrupt);
  EXPECT_EQ(OpenShmWeights("/proc/self/exe", kIncarnation).status().code(), Code::kCorrupt);
  EXPECT_EQ(OpenShmWeights("/proc/999999999/fd/3", kIncarnation).status().code(), Code::kNotFound);
  EXPECT_EQ(sink->Put(1, 1, *Sample(1).parts).code(), Code::kInvalid);
  EXPECT_EQ(ShmDomain(), ShmDomain());
  EXPECT_GT(ShmDomain().size(), 30u);
}

}  // namespace
}  // namespace tidemill
