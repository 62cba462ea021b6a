#include "store/parquet_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

// What other readers make of the files is tried by scripts/interop.
TEST(ParquetWriter, AFileIsThereWhenItIsFinishedAndEndsWithItsFooter) {
  const TemporaryDirectory folder;
  const std::string path = folder / "a.parquet";
  {
    auto writer =
        ParquetWriter::Create(path, {{"name", ParquetKind::kText}, {"ids", ParquetKind::kWholes}});
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    ASSERT_TRUE((*writer)->Add({std::string("x"), std::vector<int64_t>{1, 2}}).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  const std::string bytes = TextOf(path);
  ASSERT_GT(bytes.size(), 12u);
  EXPECT_EQ(bytes.substr(0, 4), "PAR1");
  EXPECT_EQ(bytes.substr(bytes.size() - 4), "PAR1");
  uint32_t footer = 0;
  std::memcpy(&footer, bytes.data() + bytes.size() - 8, sizeof footer);
  EXPECT_LT(footer, bytes.size() - 12);
  const std::string text = bytes.substr(bytes.size() - 8 - footer, footer);
  for (const char* word : {"schema", "name", "ids", "list", "element", "tidemill"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
}

TEST(ParquetWriter, WhatIsNotFinishedLeavesNothing) {
  const TemporaryDirectory folder;
  {
    auto writer = ParquetWriter::Create(folder / "a.parquet", {{"n", ParquetKind::kWhole}});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Add({int64_t{1}}).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_FALSE(ParquetWriter::Create(folder / "none/a.parquet", {}).ok());
}

}  // namespace
}  // namespace tidemill
