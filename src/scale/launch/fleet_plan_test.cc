#include "scale/launch/fleet_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scale/launch/slurm.h"

namespace tidemill {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

FleetFile SmallFleet() {
  FleetFile fleet;
  fleet.run = "demo";
  fleet.config = "/c/run.toml";
  fleet.folder = "/f";
  fleet.directory = "/d";
  fleet.set = {"run.steps=3"};
  fleet.workers = {{.role = "rollout", .count = 3, .gpus = 2},
                   {.role = "learner", .gpus = 1, .cores = 4},
                   {.role = "tools", .cores = 2, .set = {"tools.cache=false"}},
                   {.role = "reward"}};
  return fleet;
}

TEST(FleetPlan, GpusAreHandedOutByIndexAndTheLearnerComesFirst) {
  const auto plan = PlanFleet(SmallFleet(), "/p/tidemill", {.gpus = 7});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  ASSERT_EQ(plan->size(), 6u);
  EXPECT_EQ((*plan)[0].name, "learner-1");
  EXPECT_THAT((*plan)[0].words,
              ElementsAre("/p/tidemill", "worker", "learner", "/c/run.toml", "--resume", "--json",
                          "--set", "run.steps=3", "--set", "threads.trainer=4"));
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT((*plan)[0].environment, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "0")));
  EXPECT_THAT((*plan)[3].environment, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "5,6")));
  EXPECT_THAT((*plan)[4].words, ElementsAre("/p/tidemill", "worker", "tools", "--set",
                                            "tools.slots=2", "--set", "tools.cache=false"));
}

TEST(FleetPlan, AMachineWithLessThanIsAskedForIsNamedWithBoth) {
  EXPECT_THAT(PlanFleet(SmallFleet(), "p", {.gpus = 6}).status().message(),
              HasSubstr("7 GPUs, this machine has 6"));
  FleetFile large = SmallFleet();
  large.workers[3].memory_gb = 64;
  EXPECT_THAT(
      PlanFleet(large, "p", {.gpus = 8, .memory_bytes = uint64_t{32} << 30}).status().message(),
      HasSubstr("64 GB of memory, this machine has 32"));
}

TEST(FleetPlan, WorkersAreSpreadOverHostsEachWithGpusFromZero) {
  FleetFile fleet = SmallFleet();
  fleet.backend = "ssh";
  fleet.ssh.hosts = {"a", "b"};
  const auto plan = PlanFleet(fleet, "p", {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)[0].host, "a");
  EXPECT_EQ((*plan)[1].host, "a");
  EXPECT_EQ((*plan)[2].host, "b");
  EXPECT_EQ((*plan)[1].environment[0].second, "1,2");
  EXPECT_EQ((*plan)[2].environment[0].second, "0,1");
}

TEST(FleetPlan, AWordIsWrittenSoThatAShellReadsItBack) {
  EXPECT_EQ(ShellLine({"a", "b c", "d'e", "", "$x"}), "a 'b c' 'd'\\''e' '' '$x'");
}

TEST(FleetPlan, ThePasswordIsInTheUrlAndInTheConfigAndNowhereElse) {
  const FleetRedis redis = {"10.0.0.1", 6390, "secret"};
  EXPECT_EQ(redis.Url(), "redis://:secret@10.0.0.1:6390/0");
  EXPECT_THAT(redis.Config(), HasSubstr("bind 127.0.0.1 10.0.0.1\n"));
  EXPECT_THAT(redis.Config(), HasSubstr("requirepass secret\n"));
  for (const SlurmJob& job : SlurmJobs(SmallFleet(), "p")) {
    for (const std::string& word : job.words)
      EXPECT_THAT(word, testing::Not(HasSubstr("redis://")));
  }
}

TEST(Slurm, AJobIsAnArrayOfWorkersThatAsksForWhatTheyNeed) {
  FleetFile fleet = SmallFleet();
  fleet.backend = "slurm";
  fleet.slurm.partition = "gpu";
  fleet.slurm.time_limit = "2:00:00";
  const auto jobs = SlurmJobs(fleet, "/p/tidemill");
  ASSERT_EQ(jobs.size(), 4u);
  EXPECT_EQ(jobs[0].role, "learner");
  EXPECT_THAT(jobs[1].words, Contains("--array=1-3"));
  EXPECT_THAT(jobs[1].words, Contains("--gres=gpu:2"));
  EXPECT_THAT(jobs[1].words, Contains("--partition=gpu"));
  EXPECT_THAT(jobs[1].words, Contains("--time=2:00:00"));
  EXPECT_THAT(jobs[1].words, Contains("--requeue"));
  EXPECT_EQ(jobs[1].words.back(), "/f/demo/rollout.sh");
}

TEST(Slurm, WhatSqueueSaysIsReadAndAnythingElseIsCorrupt) {
  const std::vector<SubmittedJob> jobs = {{"12", "rollout", "rollout"}, {"13", "tools.2", "tools"}};
  const auto read = ReadQueue(
      "12|1|RUNNING|n1|None\n12|2|PENDING||Priority\n13|1|FAILED|n2|NonZeroExitCode\n", jobs);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ((*read)[0].name, "rollout-1");
  EXPECT_EQ((*read)[0].state, "running on n1");
  EXPECT_EQ((*read)[1].last_end, "Priority");
  EXPECT_EQ((*read)[2].state, "failed on n2");
  EXPECT_EQ(ReadQueue("14|1|RUNNING|n1|None\n", jobs).status().code(), Code::kCorrupt);
  EXPECT_EQ(ReadQueue("slurm_load_jobs error", jobs).status().code(), Code::kCorrupt);
  EXPECT_EQ(*ReadJobId("123;cluster\n"), "123");
  EXPECT_FALSE(ReadJobId("sbatch: error").ok());
}

}  // namespace
}  // namespace tidemill
