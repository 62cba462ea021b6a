#include "core/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

TEST(Files, AnAtomicWriteReplacesAndLeavesNoTemporary) {
  TemporaryDirectory dir;
  ASSERT_TRUE(WriteFileAtomically(dir / "x", "one").ok());
  const std::string_view parts[] = {"tw", "", "o"};
  ASSERT_TRUE(WriteFileAtomically(dir / "x", parts).ok());
  EXPECT_EQ(TextOf(dir / "x"), "two");
  const auto entries = std::filesystem::directory_iterator(dir.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(Files, AnAtomicWriteThatFailsNamesThePathAndChangesNothing) {
  TemporaryDirectory dir;
  const Status no_folder = WriteFileAtomically(dir / "no/x", "");
  EXPECT_EQ(no_folder.code(), Code::kNotFound);
  EXPECT_NE(no_folder.message().find(dir / "no/x"), std::string::npos) << no_folder.message();
  std::filesystem::create_directory(dir / "taken");
  EXPECT_FALSE(WriteFileAtomically(dir / "taken", "x").ok());
  const auto entries = std::filesystem::directory_iterator(dir.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(Files, AnotherWritersTemporaryIsLeftAlone) {
  TemporaryDirectory dir;
  // Names count up with the writes of a process; this one has done fewer than are taken here.
  const std::string prefix = dir / "x.tmp" + std::to_string(getpid()) + ".";
  for (int i = 0; i < 50; ++i) std::ofstream(prefix + std::to_string(i)) << "theirs";
  ASSERT_TRUE(WriteFileAtomically(dir / "x", "ours").ok());
  EXPECT_EQ(TextOf(dir / "x"), "ours");
  for (int i = 0; i < 50; ++i) EXPECT_EQ(TextOf(prefix + std::to_string(i)), "theirs");
}

TEST(Files, WhatIsGoneIsNotFoundAndOtherFailuresAreNot) {
  for (const int error : {ENOENT, ENOTDIR, ESTALE}) {
    EXPECT_EQ(FileFailure("a/b", "cannot open", error).code(), Code::kNotFound);
  }
  const Status refused = FileFailure("a/b", "cannot open", EACCES);
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_EQ(refused.message(), "a/b: cannot open: Permission denied");
}

TEST(Files, AreReadWholeUnderABound) {
  TemporaryDirectory dir;
  ASSERT_TRUE(WriteFileAtomically(dir / "x", "two").ok());
  EXPECT_EQ(*ReadFileBounded(dir / "x", 10), "two");
  EXPECT_EQ(ReadFileBounded(dir / "x", 2).status().code(), Code::kInvalid);
  EXPECT_EQ(ReadFileBounded(dir / "y", 10).status().code(), Code::kNotFound);
}

TEST(Files, DirectoriesAreMadeWithThoseAbove) {
  TemporaryDirectory dir;
  ASSERT_TRUE(WriteFileAtomically(dir / "f", "").ok());
  EXPECT_THAT(MakeDirectories(dir / "f").message(), HasSubstr("is not a directory"));
  EXPECT_TRUE(MakeDirectories(dir / "a/b/c").ok());
}

}  // namespace
}  // namespace tidemill
