#include "store/line_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

std::vector<std::string> Lines(const std::string& path) {
  Result<LineReader> reader = LineReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  std::vector<std::string> lines;
  std::string line;
  for (;;) {
    const Result<bool> more = reader->Next(line);
    EXPECT_TRUE(more.ok()) << more.status().message();
    if (!more.ok() || !*more) return lines;
    lines.push_back(line);
  }
}

TEST(LineFile, WhatIsWrittenIsReadBackAndByZstdItself) {
  TemporaryDirectory folder;
  std::vector<std::string> lines = {"", "one", std::string(300'000, 'x'), "{\"a\": 1}"};
  for (const char* name : {"a.jsonl", "a.jsonl.zst"}) {
    const std::string path = folder / name;
    Result<LineWriter> writer = LineWriter::Create(path);
    ASSERT_TRUE(writer.ok());
    for (const std::string& line : lines) ASSERT_TRUE(writer->Write(line).ok());
    EXPECT_FALSE(std::filesystem::exists(path)) << "not before it is whole";
    ASSERT_TRUE(writer->Finish().ok());
    EXPECT_EQ(Lines(path), lines);
  }
  const std::string plain = folder / "plain";
  if (std::system("command -v zstd > /dev/null") != 0) GTEST_SKIP() << "zstd is not installed";
  ASSERT_EQ(std::system(("zstd -q -d -c " + (folder / "a.jsonl.zst") + " > " + plain).c_str()), 0);
  EXPECT_EQ(TextOf(plain), TextOf(folder / "a.jsonl"));
}

TEST(LineFile, AFileThatWasCutOffIsSaidToBe) {
  TemporaryDirectory folder;
  const std::string path = folder / "a.zst";
  Result<LineWriter> writer = LineWriter::Create(path);
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(writer->Write(std::to_string(i * 7919)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  Result<LineReader> reader = LineReader::Open(path);
  Result<bool> more = true;
  for (std::string line; more.ok() && *more;) more = reader->Next(line);
  EXPECT_EQ(more.status().code(), Code::kCorrupt);
  EXPECT_EQ(LineReader::Open(folder / "none").status().code(), Code::kNotFound);
}

TEST(LineFile, AWriterThatIsGivenUpLeavesNothing) {
  TemporaryDirectory folder;
  {
    Result<LineWriter> writer = LineWriter::Create(folder / "a");
    ASSERT_TRUE(writer->Write("x").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace tidemill
