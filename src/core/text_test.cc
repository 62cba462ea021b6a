#include "core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/paths.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

TEST(ForTerminal, ControlCharactersAreShownAndNotObeyed) {
  EXPECT_EQ(ForTerminal("a\x1b[2Jb\rc\x07\td\ne\x7f"), "a\\u001b[2Jb\\u000dc\\u0007\td\ne\\u007f");
  // The same in the upper range, and marks that turn the direction of writing.
  EXPECT_EQ(ForTerminal("\xC2\x9B"
                        "2J \xE2\x80\xAE x"),
            "\\u009b2J \\u202e x");
  EXPECT_EQ(ForTerminal("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(ForTerminal(std::string_view("\x9b"
                                         "1m\0",
                                         4)),
            "\xEF\xBF\xBD"
            "1m\xEF\xBF\xBD");
}

using ::testing::HasSubstr;

TEST(ToUtf8, ReplacesWhatIsNoText) {
  EXPECT_EQ(ToUtf8(std::string("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(ToUtf8("\xff\xc3\xa4\xc3"), "\xEF\xBF\xBD\xC3\xA4\xEF\xBF\xBD");
  EXPECT_EQ(ToUtf8("\xed\xa0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_TRUE(IsUtf8("\xF0\x9F\x98\x80"));
  EXPECT_FALSE(IsUtf8("\xF5\x80\x80\x80"));
}

TEST(Beginning, CutsBetweenCharacters) {
  EXPECT_EQ(Beginning("abc", 3), "abc");
  EXPECT_EQ(Beginning("abcd", 3), "abc..");
  EXPECT_EQ(Beginning("a\xC3\xA4z", 2), "a..");
  EXPECT_EQ(Beginning("a\xC3\xA4z", 3), "a\xC3\xA4..");
  EXPECT_EQ(Beginning("\xff\xff", 9), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(Beginning("\xF0\x9F\x98\x80z", 3), "..");
  EXPECT_EQ(Beginning(std::string(9, '\x80'), 4), "\xEF\xBF\xBD..") << "no text, but not nothing";
}

TEST(MakeReadable, MendsStringsAtAnyDepthAndLeavesBytes) {
  v1::ToolResult result;
  result.set_cause("half \xC3");
  result.set_stdout_bytes("\xff");
  result.add_failures()->set_name("ok");
  result.add_failures()->set_name("\xfe");
  result.mutable_tree()->add_files()->set_content("\xff");
  v1::ScoreRequest request;
  request.add_files("\xff.c");
  MakeReadable(result);
  MakeReadable(request);
  EXPECT_EQ(result.cause(), "half \xEF\xBF\xBD");
  EXPECT_EQ(result.stdout_bytes(), "\xff");
  EXPECT_EQ(result.failures(0).name(), "ok");
  EXPECT_EQ(result.failures(1).name(), "\xEF\xBF\xBD");
  EXPECT_EQ(result.tree().files(0).content(), "\xff");
  EXPECT_EQ(request.files(0), "\xEF\xBF\xBD.c");
  EXPECT_TRUE(v1::ToolResult().ParseFromString(result.SerializeAsString()));
}

TEST(CheckPath, TakesWhatNamesAFileOfAWorkspaceAndNothingElse) {
  for (const char* path : {"a", "a/b.c", "\xC3\xA4/.hidden", "a b"}) {
    EXPECT_TRUE(CheckPath(path).ok()) << path;
  }
  for (const char* path : {"", "/", "/a", "a/", "a//b", "./a", "a/..", "a\nb", "a\xff"}) {
    EXPECT_EQ(CheckPath(path).code(), Code::kInvalid) << path;
  }
  EXPECT_FALSE(CheckPath(std::string(256, 'a')).ok());
  EXPECT_FALSE(CheckPath(std::string(600, 'a') + "/" + std::string(600, 'b')).ok());
  EXPECT_THAT(CheckPath("a/../b").message(), HasSubstr("the path \"a/../b\" has an empty"));
}

}  // namespace
}  // namespace tidemill
