// Publisher and receiver, with numbers in the place of weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "core/log.h"
#include "policy/file_weights.h"
#include "policy/weight_publisher.h"
#include "policy/weight_receiver.h"

namespace tidemill {

class PolicyWeights {
 public:
  explicit PolicyWeights(uint64_t n) : number(n) {}
  uint64_t number;
};

namespace {

namespace fs = std::filesystem;
constexpr Duration kPatience = std::chrono::seconds(20);

Result<EncodedWeights> Encode(const PolicyWeights& weights) {
  auto number = std::make_shared<uint64_t>(weights.number);
  const TensorView view = {.name = "n",
                           .dtype = Dtype::kI64,
                           .shape = {1},
                           .data = reinterpret_cast<const std::byte*>(number.get()),
                           .bytes = 8};
  EncodedWeights encoded;
  TM_ASSIGN_OR_RETURN(encoded.parts, LayOutSafetensors({&view, 1}, {}, "number"));
  encoded.keeps = number;
  return encoded;
}

Result<std::shared_ptr<const PolicyWeights>> Decode(const WeightBlob& blob) {
  TM_ASSIGN_OR_RETURN(const SafetensorsHeader header, ParseSafetensors(blob.view(), "number"));
  uint64_t number = 0;
  std::memcpy(&number, header.tensors.at(0).data, 8);
  if (number == 13) return Invalid("not this one");
  return std::shared_ptr<const PolicyWeights>(std::make_shared<PolicyWeights>(number));
}

PublishedWeights Version(uint64_t version) {
  return {.version = version, .step = version, .weights = std::make_shared<PolicyWeights>(version)};
}

class WeightEnds : public testing::Test {
 protected:
  WeightEnds() {
    char name[] = "/tmp/tidemill-ends-XXXXXX";
    dir_ = mkdtemp(name);
  }
  ~WeightEnds() override { fs::remove_all(dir_); }

  static PublishedWeights WaitFor(WeightReceiver& receiver, uint64_t version) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    PublishedWeights newest;
    while (newest.version < version && std::chrono::steady_clock::now() < until) {
      const auto newer = receiver.NewerThan(newest.version);
      if (newer.ok() && newer->weights != nullptr) newest = *newer;
      std::this_thread::yield();
    }
    return newest;
  }

  std::string dir_;
};

TEST_F(WeightEnds, AVersionReachesTheReceiverBothWays) {
  WeightPublisher publisher(Encode, {.incarnation = 5, .folder = dir_});
  EXPECT_EQ(publisher.shm_location(), "");
  ASSERT_TRUE(publisher.Publish(Version(1)).ok());
  WeightReceiver by_memory(Decode), by_files(Decode);
  by_memory.Follow(std::move(OpenShmWeights(publisher.shm_location(), 5).value()));
  by_files.Follow(NewFileWeightSource(dir_));
  EXPECT_EQ(by_memory.WaitForFirst(kPatience)->weights->number, 1u);
  // Nobody asked for files yet.
  EXPECT_EQ(by_files.WaitForFirst(milliseconds(1)).status().code(), Code::kTimeout);
  EXPECT_TRUE(fs::is_empty(dir_));
  publisher.WantFiles();
  EXPECT_EQ(by_files.WaitForFirst(kPatience)->weights->number, 1u);
  ASSERT_TRUE(publisher.Publish(Version(2)).ok());
  EXPECT_EQ(WaitFor(by_memory, 2).weights->number, 2u);
  EXPECT_EQ(WaitFor(by_files, 2).weights->number, 2u);
  EXPECT_EQ(publisher.Publish(Version(2)).code(), Code::kInvalid);
  EXPECT_EQ(by_files.Publish(Version(9)).code(), Code::kInvalid);
}

TEST_F(WeightEnds, WhatDoesNotDecodeIsCountedAndTheNextTaken) {
  InitLog({.level = LogLevel::kOff});
  WeightPublisher publisher(Encode, {});
  ASSERT_TRUE(publisher.Publish(Version(13)).ok());
  WeightReceiver receiver(Decode);
  receiver.Follow(std::move(OpenShmWeights(publisher.shm_location(), 1).value()));
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (receiver.refused() == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_EQ(receiver.NewerThan(0)->weights, nullptr);
  EXPECT_THAT(receiver.WaitForFirst(milliseconds(1)).status().message(),
              testing::HasSubstr("not this one"));
  ASSERT_TRUE(publisher.Publish(Version(14)).ok());
  EXPECT_EQ(WaitFor(receiver, 14).weights->number, 14u);
  InitLog({});
}

TEST_F(WeightEnds, AReceiverFollowsTheNextPublisher) {
  WeightReceiver receiver(Decode);
  {
    WeightPublisher first(Encode, {.incarnation = 1});
    ASSERT_TRUE(first.Publish(Version(4)).ok());
    receiver.Follow(std::move(OpenShmWeights(first.shm_location(), 1).value()));
    EXPECT_EQ(WaitFor(receiver, 4).weights->number, 4u);
  }
  // The first is gone; what it gave stays until there is something newer.
  EXPECT_EQ(receiver.NewerThan(0)->version, 4u);
  WeightPublisher second(Encode, {.incarnation = 2});
  ASSERT_TRUE(second.Publish(Version(7)).ok());
  receiver.Follow(std::move(OpenShmWeights(second.shm_location(), 2).value()));
  EXPECT_EQ(WaitFor(receiver, 7).weights->number, 7u);
}

}  // namespace
}  // namespace tidemill
