#include "core/signature.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

TEST(SigningKey, VerifiesWhatItSignedAndNothingElse) {
  const TemporaryDirectory folder;
  ASSERT_TRUE(MakeSigningKey(folder / "a").ok());
  ASSERT_TRUE(MakeSigningKey(folder / "b").ok());
  const SigningKey secret = SigningKey::ReadPrivate(folder / "a").value();
  const SigningKey open = SigningKey::ReadPublic(folder / "a.pub").value();
  const std::string signature = secret.Sign("text");
  EXPECT_TRUE(open.Verifies("text", signature));
  EXPECT_TRUE(secret.Verifies("text", signature));
  EXPECT_FALSE(open.Verifies("texts", signature));
  EXPECT_FALSE(open.Verifies("text", "no signature"));
  EXPECT_FALSE(open.Verifies("text", std::string(128, '0')));
  EXPECT_FALSE(SigningKey::ReadPublic(folder / "b.pub").value().Verifies("text", signature));
}

TEST(SigningKey, FilesAreForTheOwnerAndNeverWrittenOver) {
  const TemporaryDirectory folder;
  ASSERT_TRUE(MakeSigningKey(folder / "a").ok());
  struct stat about {};
  ASSERT_EQ(stat((folder / "a").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(MakeSigningKey(folder / "a").code(), Code::kExists);
  EXPECT_EQ(SigningKey::ReadPrivate(folder / "a.pub").status().code(), Code::kInvalid);
  EXPECT_EQ(SigningKey::ReadPublic(folder / "a").status().code(), Code::kInvalid);
  ASSERT_EQ(chmod((folder / "a").c_str(), 0644), 0);
  EXPECT_EQ(SigningKey::ReadPrivate(folder / "a").status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace tidemill
