#include "core/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/files.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(Secret, TokensAreHmacSha256CutInHalf) {
  // RFC 4231, test case 2.
  EXPECT_EQ(TokenFor("Jefe", "what do ya want for nothing?"), "5bdcc146bf60754e6a042426089575c7");
  EXPECT_NE(TokenFor("", "a"), TokenFor("", "b"));
  EXPECT_TRUE(SameToken("ab", "ab"));
  EXPECT_FALSE(SameToken("ab", "ac"));
  EXPECT_FALSE(SameToken("ab", ""));
}

TEST(Secret, IsMadeOnceForTheOwnerAloneAndKept) {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/secret";
  const auto made = KeepSecret(path);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->size(), 64u);
  struct stat about {};
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(KeepSecret(path).value(), *made);
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(KeepSecret(path).status().code(), Code::kInvalid) << "others may have read it";
  ASSERT_TRUE(WriteFileAtomically(path, "guess me\n").ok());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(KeepSecret(path).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace tidemill
