#include "core/threads.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <string>
#include <thread>

#include "core/blas.h"
#include "core/nearest.h"

namespace tidemill {
namespace {

TEST(Threads, ASmallMachineHasOneTorchThreadAPort) {
  EXPECT_EQ(PlanThreads({}, 2).ToString(), "2 cores: engine 1, trainer 1, boxes 2");
  EXPECT_EQ(PlanThreads({}, 1).ToString(), "1 core: engine 1, trainer 1, boxes 1");
  EXPECT_EQ(PlanThreads({}, 0).cores, 1);
}

TEST(Threads, AThreadHasAName) {
  std::string name(16, '\0');
  std::thread([&] {
    NameThisThread("a name that is too long");
    EXPECT_EQ(pthread_getname_np(pthread_self(), name.data(), name.size()), 0);
  }).join();
  EXPECT_STREQ(name.c_str(), "a name that is ");
}

TEST(Threads, ALargeMachineIsShared) {
  EXPECT_EQ(PlanThreads({}, 16).ToString(), "16 cores: engine 4, trainer 4, boxes 8");
}

TEST(Threads, ASettingWins) {
  const ThreadPlan plan = PlanThreads({.cores = 4, .engine = 3, .trainer = 2, .boxes = 9}, 64);
  EXPECT_EQ(plan.ToString(), "4 cores: engine 3, trainer 2, boxes 9");
}

TEST(Threads, ACgroupsShareIsRoundedUp) {
  EXPECT_EQ(CoresOfQuota("max", "100000"), 0);
  EXPECT_EQ(CoresOfQuota("-1", "100000"), 0);
  EXPECT_EQ(CoresOfQuota("150000", "100000"), 2);
  EXPECT_EQ(CoresOfQuota("200000", "100000"), 2);
  EXPECT_EQ(CoresOfQuota("1", "100000"), 1);
  EXPECT_EQ(CoresOfQuota("", ""), 0);
  EXPECT_GE(AvailableCores(), 1);
}

TEST(Blas, IsToldByTheFileThatDefinesIt) {
  EXPECT_EQ(BlasOfFile("/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3"),
            BlasKind::kOpenBlas);
  EXPECT_EQ(BlasOfFile("/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0"), BlasKind::kReference);
  EXPECT_EQ(BlasOfFile("/opt/libtorch/lib/libtorch_cpu.so"), BlasKind::kMkl);
  EXPECT_EQ(BlasOfFile("/usr/lib/libfoo.so"), BlasKind::kUnknown);
  EXPECT_EQ(BlasOfFile(""), BlasKind::kNone);
}

TEST(Nearest, DistanceCountsSlips) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("train", "train"), 0u);
  EXPECT_EQ(EditDistance("trian", "train"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(Nearest, OnlyASlipIsGuessed) {
  const std::vector<std::string> words = {"train", "eval", "doctor"};
  EXPECT_EQ(NearestWord("trian", words), "train");
  EXPECT_EQ(NearestWord("serve", words), "");
  EXPECT_EQ(NearestWord("max_steps", {"staleness.max_steps", "mode"}), "staleness.max_steps");
  EXPECT_EQ(DidYouMean("evl", words), " Did you mean \"eval\"?");
}

}  // namespace
}  // namespace tidemill
