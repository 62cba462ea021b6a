#include "gateway/key_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "core/files.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

class KeyFileTest : public testing::Test {
 protected:
  static NewKey Make(const std::string& tenant) {
    Tenant of;
    of.name = tenant;
    return MakeKey(of).value();
  }
  void Write(const std::string& text) { ASSERT_TRUE(WriteFileAtomically(path_, text).ok()); }
  // Until the key is known or unknown, as said.
  static bool Until(const KeyFile& keys, const NewKey& key, bool known) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (keys.Find("", key.key).has_value() != known) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/keys.txt";
};

TEST_F(KeyFileTest, IsReadAgainWhenItChangesAndATenantKeepsItsId) {
  const NewKey alice = Make("alice"), bob = Make("bob"), carol = Make("carol");
  Write(alice.line + "\n" + bob.line + "\n");
  const KeyFile keys(ApiKeys::Read(path_).value(), path_, std::chrono::milliseconds(1));
  const uint64_t id = keys.Find("", bob.key)->id;
  EXPECT_FALSE(keys.Find("", carol.key).has_value());
  // Another order, one gone, one new.
  Write(carol.line + "\n" + bob.line + "\n");
  EXPECT_TRUE(Until(keys, carol, true));
  EXPECT_TRUE(Until(keys, alice, false));
  ASSERT_TRUE(keys.Find("", bob.key).has_value());
  EXPECT_EQ(keys.Find("", bob.key)->id, id);  // or it would meet another's cached prompts
  EXPECT_NE(keys.Find("", carol.key)->id, id);
}

TEST_F(KeyFileTest, ABadFileChangesNothing) {
  const NewKey alice = Make("alice"), bob = Make("bob");
  Write(alice.line + "\n");
  const KeyFile keys(ApiKeys::Read(path_).value(), path_, std::chrono::milliseconds(1));
  Write(bob.line + "\nno key at all\n");
  Write("");
  std::filesystem::remove(path_);
  // The next good one shows that the bad ones were looked at, or passed over.
  EXPECT_TRUE(keys.Find("", alice.key).has_value());
  Write(alice.line + "\n" + bob.line + "\n");
  EXPECT_TRUE(Until(keys, bob, true));
  EXPECT_TRUE(keys.Find("", alice.key).has_value());
}

}  // namespace
}  // namespace tidemill
