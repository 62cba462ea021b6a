#include "model/torch/device.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(Device, CpuIsAlwaysThere) {
  const auto device = ResolveDevice("cpu");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(*device, "cpu");
  EXPECT_FALSE(IsGpu(*device));
}

TEST(Device, AutoIsADeviceThatIsThere) {
  const auto device = ResolveDevice("auto");
  ASSERT_TRUE(device.ok());
  const auto again = ResolveDevice(*device);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, *device);
}

TEST(Device, WhatIsNoDeviceIsSaid) {
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x"}) {
    const auto device = ResolveDevice(wrong);
    ASSERT_FALSE(device.ok()) << wrong;
    EXPECT_EQ(device.status().code(), Code::kInvalid);
  }
  EXPECT_FALSE(ResolveDevice("cuda:999").ok());
}

}  // namespace
}  // namespace tidemill
