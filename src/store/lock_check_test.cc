#include "store/lock_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/run_directory.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class SaidLocks final : public LockPort {
 public:
  std::string mounts;
  Status seen = Ok();
  std::string Mounts() override { return mounts; }
  Status SeesLock(const std::string&) override { return seen; }
};

constexpr char kRoot[] = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";

std::string Mounted(const std::string& point, const std::string& type, const std::string& options) {
  return kRoot + ("90 21 0:50 / " + point + " rw,relatime shared:7 - " + type + " server:/x rw," +
                  options + "\n");
}

TEST(LockCheck, AnNfsWhoseLocksStayOnThisMachineIsRefusedByName) {
  SaidLocks locks;
  for (const char* option : {"local_lock=all", "local_lock=posix", "nolock"}) {
    locks.mounts = Mounted("/shared/runs", "nfs4", std::string("vers=4.2,") + option);
    const Status refused = CheckLocks("/shared/runs/demo", "lock", locks);
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_THAT(refused.message(), HasSubstr("/shared/runs/demo"));
    EXPECT_THAT(refused.message(), HasSubstr(std::string("nfs4, option ") + option));
    EXPECT_THAT(refused.message(), HasSubstr("run.folder"));
    // Beside it is the root's file system.
    EXPECT_TRUE(CheckLocks("/shared/runs-of-others/demo", "lock", locks).ok());
  }
  locks.mounts = Mounted("/shared/runs", "nfs4", "vers=4.2,local_lock=none");
  EXPECT_TRUE(CheckLocks("/shared/runs/demo", "lock", locks).ok());
}

TEST(LockCheck, AFileSystemThatGrantsALockTwiceOrHasNoneIsRefused) {
  SaidLocks locks;
  locks.mounts = Mounted("/l", "lustre", "flock");
  EXPECT_TRUE(CheckLocks("/l/demo", "lock", locks).ok());
  for (const char* why : {"a second lock was granted", "Function not implemented"}) {
    locks.seen = Unavailable(why);
    const Status refused = CheckLocks("/l/demo", "lock", locks);
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_THAT(refused.message(), HasSubstr(std::string("lustre, ") + why));
  }
  locks.seen = Ok();
  locks.mounts = Mounted("/home/a\\040b", "fuse.sshfs", "user_id=0");
  EXPECT_EQ(CheckLocks("/home/a b/demo", "lock", locks).code(), Code::kInvalid);
}

TEST(LockCheck, WithoutAListOfMountsTheLockItselfDecides) {
  SaidLocks locks;
  EXPECT_TRUE(CheckLocks("/r/demo", "lock", locks).ok());
  locks.seen = Unavailable("No locks available");
  EXPECT_FALSE(CheckLocks("/r/demo", "lock", locks).ok());
}

// The lock is this process's own; another open file must not get it.
TEST(LockCheck, ThisMachinesLocksAreSeenWhileARunIsHeldAndNotAfterwards) {
  TemporaryDirectory folder;
  std::string lock;
  {
    Result<RunDirectory> run = RunDirectory::Create(folder.path(), "demo", "");
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    lock = run->lock_path();
    EXPECT_TRUE(SystemLocks().SeesLock(lock).ok());
  }
  EXPECT_FALSE(SystemLocks().SeesLock(lock).ok());
}

}  // namespace
}  // namespace tidemill
