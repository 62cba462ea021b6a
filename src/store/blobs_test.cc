#include "store/blobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "core/hash.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

// The contract, for every kind of blob store.
class BlobsTest : public testing::TestWithParam<const char*> {
 protected:
  BlobsTest() {
    if (std::string(GetParam()) == "memory") {
      blobs_ = NewMemoryBlobs();
    } else {
      blobs_ = *OpenFileBlobs(dir_ / "blobs");
    }
  }
  TemporaryDirectory dir_;
  std::unique_ptr<BlobStore> blobs_;
};

TEST_P(BlobsTest, ContentComesBackByItsHash) {
  for (const std::string& content :
       {std::string(), std::string("abc"), std::string("\0\n\xff", 3), std::string(1 << 20, 'x')}) {
    const auto hash = blobs_->Put(content);
    ASSERT_TRUE(hash.ok()) << hash.status().ToString();
    EXPECT_EQ(*hash, Sha256Hex(content));
    EXPECT_EQ(*blobs_->Get(*hash), content);
    EXPECT_EQ(*blobs_->Put(content), *hash) << "a second time";
  }
}

TEST_P(BlobsTest, WhatWasNotPutIsNotFound) {
  EXPECT_EQ(blobs_->Get(Sha256Hex("x")).status().code(), Code::kNotFound);
}

TEST_P(BlobsTest, AHashThatIsNoneIsRefused) {
  for (const std::string& hash :
       {std::string(), std::string("abc"), std::string(64, 'G'),
        std::string("../") + std::string(61, 'a'), std::string(65, 'a')}) {
    EXPECT_EQ(blobs_->Get(hash).status().code(), Code::kInvalid) << hash;
  }
}

TEST_P(BlobsTest, ManyThreadsMayPutTheSame) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto hash = blobs_->Put("content " + std::to_string(i));
        ASSERT_TRUE(hash.ok()) << hash.status().ToString();
        EXPECT_TRUE(blobs_->Get(*hash).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Every, BlobsTest, testing::Values("memory", "files"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FileBlobs, ADamagedBlobIsCorruptAndIsMendedByPuttingItAgain) {
  TemporaryDirectory dir;
  auto blobs = OpenFileBlobs(dir / "blobs");
  ASSERT_TRUE(blobs.ok());
  const std::string hash = *(*blobs)->Put("whole");
  const std::string path = dir / ("blobs/" + hash.substr(0, 2) + "/" + hash.substr(2));
  std::ofstream(path) << "wh0le";
  const Status damaged = (*blobs)->Get(hash).status();
  EXPECT_EQ(damaged.code(), Code::kCorrupt);
  EXPECT_THAT(damaged.message(), testing::HasSubstr(path));
  ASSERT_TRUE((*blobs)->Put("whole").ok());
  EXPECT_EQ(*(*blobs)->Get(hash), "whole");
}

TEST(FileBlobs, TheyOutliveTheirStore) {
  TemporaryDirectory dir;
  const std::string hash = *(*OpenFileBlobs(dir / "blobs"))->Put("kept");
  EXPECT_EQ(*(*OpenFileBlobs(dir / "blobs"))->Get(hash), "kept");
}

}  // namespace
}  // namespace tidemill
