#include "tools/box/cgroup.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A folder that looks like a cgroup hierarchy, as far as files can.
class FakeHierarchy : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }
  std::string Read(const std::string& path) { return TextOf(root_ + "/" + path); }
  TemporaryDirectory directory_;
  const std::string root_ = directory_.path();
};

TEST_F(FakeHierarchy, VersionTwoIsFoundWhereItsControllersAreDelegated) {
  Write("own/cgroup.subtree_control", "cpu memory pids\n");
  const std::string mounts =
      fmt::format("30 20 0:26 / {} rw,relatime shared:4 - cgroup2 cgroup2 rw\n", root_);
  std::string why;
  const auto root = CgroupRoot::Find(mounts, "0::/own\n", &why);
  ASSERT_NE(root, nullptr) << why;
  EXPECT_EQ(root->Describe(), "cgroup v2");
  EXPECT_THAT(root->parents(), testing::ElementsAre(root_ + "/own"));
}

TEST_F(FakeHierarchy, VersionTwoWithoutDelegationSaysSo) {
  Write("own/cgroup.subtree_control", "\n");
  Write("own/cgroup.procs", "1\n2\n");
  const std::string mounts = fmt::format("30 20 0:26 / {} rw - cgroup2 cgroup2 rw\n", root_);
  std::string why;
  // The fake's control file is an ordinary one, so what is written there has to be refused first.
  fs::remove(root_ + "/own/cgroup.subtree_control");
  EXPECT_EQ(CgroupRoot::Find(mounts, "0::/own\n", &why), nullptr);
  EXPECT_THAT(why, HasSubstr("not delegated"));
}

TEST_F(FakeHierarchy, VersionOneIsPreferredOnHybridHosts) {
  for (const char* name : {"memory/own", "pids", "cpu"}) fs::create_directories(root_ + "/" + name);
  const std::string mounts = fmt::format(
      "30 20 0:26 / {0}/unified rw - cgroup2 cgroup2 rw\n31 20 0:27 / {0}/memory rw - cgroup "
      "cgroup "
      "rw,memory\n32 20 0:28 / {0}/pids rw - cgroup cgroup rw,pids\n33 20 0:29 / {0}/cpu rw - "
      "cgroup "
      "cgroup rw,cpu,cpuacct\n",
      root_);
  std::string why;
  const auto root =
      CgroupRoot::Find(mounts, "4:memory:/own\n3:pids:/\n2:cpu,cpuacct:/gone\n0::/\n", &why);
  ASSERT_NE(root, nullptr) << why;
  EXPECT_EQ(root->Describe(), "cgroup v1 (memory, pids, cpuacct)");
  EXPECT_THAT(root->parents(),
              testing::ElementsAre(root_ + "/memory/own", root_ + "/pids", root_ + "/cpu"));
}

TEST_F(FakeHierarchy, NoHierarchyIsSaid) {
  std::string why;
  EXPECT_EQ(CgroupRoot::Find("", "", &why), nullptr);
  EXPECT_THAT(why, HasSubstr("no cgroup hierarchy"));
}

TEST_F(FakeHierarchy, VersionTwoLimitsAndReadings) {
  for (const char* file : {"memory.max", "memory.swap.max", "pids.max", "memory.oom.group"}) {
    Write(std::string("box/") + file, "");
  }
  Write("box/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n");
  Write("box/memory.peak", "1048576\n");
  Write("box/pids.events", "max 7\n");
  Write("box/cpu.stat", "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n");
  auto group = Cgroup::Adopt({root_ + "/box"}, true);
  ASSERT_TRUE(group.ok()) << group.status().ToString();
  ASSERT_TRUE((*group)->SetLimits({64 << 20, 10}).ok());
  EXPECT_EQ(Read("box/memory.max"), "67108864");
  EXPECT_EQ(Read("box/memory.swap.max"), "0");
  EXPECT_EQ(Read("box/pids.max"), "10");
  EXPECT_EQ(Read("box/memory.oom.group"), "1");
  const CgroupReading reading = (*group)->Read();
  EXPECT_EQ(reading.oom_kills, 2u);
  EXPECT_EQ(reading.refused_processes, 7u);
  EXPECT_EQ(reading.cpu_ns, 1'500'000u);
  EXPECT_EQ(reading.peak_memory_bytes, 1048576u);
  EXPECT_THAT((*group)->procs_files(), testing::ElementsAre(root_ + "/box/cgroup.procs"));
}

TEST_F(FakeHierarchy, SweepRemovesOnlyWhatDeadExecutorsLeft) {
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const std::string mounts = fmt::format(
      "31 20 0:27 / {0}/memory rw - cgroup cgroup rw,memory\n32 20 0:28 / {0}/pids rw - cgroup "
      "cgroup "
      "rw,pids\n",
      root_);
  const std::string gone = fmt::format("memory/tidemill-{}-3", dead);
  const std::string ours = fmt::format("memory/tidemill-{}-3", getpid());
  for (const std::string& name : {gone, ours, std::string("memory/other"), std::string("pids")}) {
    fs::create_directories(root_ + "/" + name);
  }
  std::string why;
  const auto root = CgroupRoot::Find(mounts, "4:memory:/\n3:pids:/\n", &why);
  ASSERT_NE(root, nullptr) << why;
  root->Sweep();
  EXPECT_FALSE(fs::exists(root_ + "/" + gone));
  EXPECT_TRUE(fs::exists(root_ + "/" + ours));
  EXPECT_TRUE(fs::exists(root_ + "/memory/other"));
}

}  // namespace
}  // namespace tidemill
