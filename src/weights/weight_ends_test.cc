// Publisher and receiver, with numbers in the place of weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/log.h"
#include "testing/number_weights.h"
#include "testing/test_kit.h"
#include "weights/folder_place.h"
#include "weights/weight_publisher.h"
#include "weights/weight_receiver.h"

namespace tidemill {

namespace {

namespace fs = std::filesystem;

Result<EncodedWeights> Encode(const Weights& weights) {
  auto number = std::make_shared<uint64_t>(dynamic_cast<const NumberWeights&>(weights).number);
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

Result<std::shared_ptr<const Weights>> Decode(const WeightBlob& blob) {
  TM_ASSIGN_OR_RETURN(const SafetensorsHeader header, ParseSafetensors(blob.view(), "number"));
  uint64_t number = 0;
  std::memcpy(&number, header.tensors.at(0).data, 8);
  if (number == 13) return Invalid("not this one");
  return std::shared_ptr<const Weights>(std::make_shared<NumberWeights>(number));
}

class WeightEnds : public testing::Test {
 protected:
  static PublishedWeights WaitFor(WeightReceiver& receiver, uint64_t version) {
    PublishedWeights newest;
    Eventually([&] {
      const auto newer = receiver.NewerThan(newest.version);
      if (newer.ok() && newer->weights != nullptr) newest = *newer;
      return newest.version >= version;
    });
    return newest;
  }

  TemporaryDirectory directory_;
  const std::string dir_ = directory_.path();
};

TEST_F(WeightEnds, AVersionReachesTheReceiverBothWays) {
  WeightPublisher publisher(Encode, {.incarnation = 5, .folder = dir_});
  EXPECT_EQ(publisher.shm_location(), "");
  ASSERT_TRUE(publisher.Publish(NumberVersion(1)).ok());
  WeightReceiver by_memory(Decode), by_files(Decode);
  by_memory.Follow(OpenShmWeights(publisher.shm_location(), 5).value());
  by_files.Follow(NewVersionLogSource(NewFolderPlace(dir_)));
  EXPECT_EQ(NumberIn(by_memory.WaitForFirst(kPatience)->weights), 1u);
  // Nobody asked for files yet.
  EXPECT_EQ(by_files.WaitForFirst(milliseconds(1)).status().code(), Code::kTimeout);
  EXPECT_TRUE(fs::is_empty(dir_));
  publisher.Want(WeightsWay::kFiles);
  EXPECT_EQ(NumberIn(by_files.WaitForFirst(kPatience)->weights), 1u);
  ASSERT_TRUE(publisher.Publish(NumberVersion(2)).ok());
  EXPECT_EQ(NumberIn(WaitFor(by_memory, 2).weights), 2u);
  EXPECT_EQ(NumberIn(WaitFor(by_files, 2).weights), 2u);
  EXPECT_EQ(publisher.Publish(NumberVersion(2)).code(), Code::kInvalid);
  EXPECT_EQ(by_files.Publish(NumberVersion(9)).code(), Code::kInvalid);
}

TEST_F(WeightEnds, WhatDoesNotDecodeIsCountedAndTheNextTaken) {
  InitLog({.level = LogLevel::kOff});
  WeightPublisher publisher(Encode, {});
  ASSERT_TRUE(publisher.Publish(NumberVersion(13)).ok());
  WeightReceiver receiver(Decode);
  receiver.Follow(OpenShmWeights(publisher.shm_location(), 1).value());
  EXPECT_TRUE(Eventually([&] { return receiver.refused() > 0; }));
  EXPECT_EQ(receiver.NewerThan(0)->weights, nullptr);
  EXPECT_THAT(receiver.WaitForFirst(milliseconds(1)).status().message(),
              testing::HasSubstr("not this one"));
  ASSERT_TRUE(publisher.Publish(NumberVersion(14)).ok());
  EXPECT_EQ(NumberIn(WaitFor(receiver, 14).weights), 14u);
  InitLog({});
}

TEST_F(WeightEnds, AReceiverFollowsTheNextPublisher) {
  WeightReceiver receiver(Decode);
  {
    WeightPublisher first(Encode, {.incarnation = 1});
    ASSERT_TRUE(first.Publish(NumberVersion(4)).ok());
    receiver.Follow(OpenShmWeights(first.shm_location(), 1).value());
    EXPECT_EQ(NumberIn(WaitFor(receiver, 4).weights), 4u);
  }
  // The first is gone; what it gave stays until there is something newer.
  EXPECT_EQ(receiver.NewerThan(0)->version, 4u);
  WeightPublisher second(Encode, {.incarnation = 2});
  ASSERT_TRUE(second.Publish(NumberVersion(7)).ok());
  receiver.Follow(OpenShmWeights(second.shm_location(), 2).value());
  EXPECT_EQ(NumberIn(WaitFor(receiver, 7).weights), 7u);
}

}  // namespace
}  // namespace tidemill
