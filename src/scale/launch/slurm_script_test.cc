// The scripts of jobs, run by bash; the programs they start are lines of shell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "scale/launch/slurm.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

class SlurmScriptTest : public testing::Test {
 protected:
  SlurmScriptTest() {
    fleet_.run = "demo";
    fleet_.backend = "slurm";
    fleet_.config = "/c/run.toml";
    fleet_.folder = folder_.path();
    fleet_.directory = folder_.path();
    fleet_.redis_program = Program("redis", "exec /bin/sleep 60");
    fleet_.workers = {{.role = "learner"}, {.role = "tools"}, {.role = "tools"}};
    Program("sleep", "exec /bin/sleep 0.01");  // of the scripts' pauses
    Program("scancel", "echo \"$@\" >>" + folder_ / "cancelled");
    fs::create_directories(fleet_.RunFolder());
    std::ofstream(RedisFile(fleet_)) << "secret";
    std::ofstream(JobsFile(fleet_)) << "11 learner learner\n12 tools tools\n13 tools.2 tools\n";
  }

  std::string Program(const std::string& name, const std::string& line) {
    const std::string path = folder_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << line << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  // The exit status of the job with this index; `line` is what stands for tidemill.
  int Run(size_t index, const std::string& line) {
    const auto jobs = SlurmJobs(fleet_, Program("tidemill", line));
    const std::string script = folder_ / "job.sh";
    std::ofstream(script) << jobs[index].script;
    const std::string id = std::to_string(11 + index);
    const int status = std::system(("PATH=" + folder_.path() + ":$PATH SLURM_ARRAY_JOB_ID=" + id +
                                    " SLURM_ARRAY_TASK_ID=1 SLURM_JOB_ID=" + id + " bash " + script)
                                       .c_str());
    return WEXITSTATUS(status);
  }
  std::string Cancelled() const { return TextOf(folder_ / "cancelled"); }

  TemporaryDirectory folder_;
  FleetFile fleet_;
};

TEST_F(SlurmScriptTest, ALearnerWithAWrongConfigSaysWhyAndEndsTheOtherJobs) {
  EXPECT_EQ(Run(0, "exit 2"), 2);
  EXPECT_EQ(TextOf(FailedFile(fleet_)), "learner-1 exited with status 2\n");
  EXPECT_EQ(Cancelled(), "12 13\n");
  EXPECT_FALSE(fs::exists(DoneFile(fleet_)));
}

TEST_F(SlurmScriptTest, AWorkerOfAFailedFleetLeavesInsteadOfWaitingForTheBus) {
  std::ofstream(FailedFile(fleet_)) << "learner-1 exited with status 2\n";
  EXPECT_EQ(Run(1, "touch " + folder_ / "started"), 1);
  EXPECT_FALSE(fs::exists(folder_ / "started"));
}

TEST_F(SlurmScriptTest, OneHopelessWorkerOfTwoDoesNotEndTheFleetAndBothDo) {
  std::ofstream(BusFile(fleet_)) << "redis://:secret@127.0.0.1:1/0";
  EXPECT_EQ(Run(1, "exit 2"), 2);
  EXPECT_FALSE(fs::exists(FailedFile(fleet_)));
  EXPECT_EQ(Run(2, "exit 2"), 2);
  EXPECT_EQ(TextOf(FailedFile(fleet_)), "tools.2-1 exited with status 2\n");
  EXPECT_EQ(Cancelled(), "11 12\n");
}

TEST_F(SlurmScriptTest, ARedisThatCannotBeStartedEndsTheFleetInTheEnd) {
  fleet_.redis_program = folder_ / "no-such-program";
  EXPECT_EQ(Run(0, "exec /bin/sleep 60"), 2);
  EXPECT_EQ(TextOf(FailedFile(fleet_)), "redis ended 8 times\n");
}

TEST_F(SlurmScriptTest, AWorkerThatTheBusLeftBeforeItWasToldIsEndedWhenTheRunIsDone) {
  std::ofstream(BusFile(fleet_)) << "redis://:secret@127.0.0.1:1/0";
  std::ofstream(DoneFile(fleet_)) << "";
  EXPECT_EQ(Run(1, "exec /bin/sleep 60"), 0);
}

TEST_F(SlurmScriptTest, RedisOutlivesTheWorkersOfARunThatIsDone) {
  // They are there when it is asked first, and gone when it is asked again.
  Program("squeue", "echo \"$@\" >>" + folder_ / "asked" + "\nkill -0 $(cat " +
                        folder_ / "redis.pid" + ") && echo alive >>" + folder_ / "redis" +
                        ".log\n[ -e " + folder_ / "left" + " ] || { touch " + folder_ / "left" +
                        "; echo 12; }");
  fleet_.redis_program =
      Program("redis", "echo $$ >" + folder_ / "redis.pid" + "; exec /bin/sleep 60");
  EXPECT_EQ(Run(0, "while [ ! -s " + folder_ / "redis.pid" + " ]; do :; done"), 0);
  EXPECT_EQ(TextOf(folder_ / "asked"),
            "--noheader --states=running --jobs=12,13\n--noheader --states=running --jobs=12,13\n");
  EXPECT_EQ(TextOf(folder_ / "redis.log"), "alive\nalive\n");
}

TEST_F(SlurmScriptTest, ALearnerThatIsDoneLeavesAMarkAndCancelsNobody) {
  fleet_.redis_address = "127.0.0.1";
  EXPECT_EQ(Run(0, "test \"$TIDEMILL_BUS\" = \"$(cat " + BusFile(fleet_) + ")\" || exit 2"), 0);
  EXPECT_TRUE(fs::exists(DoneFile(fleet_)));
  EXPECT_FALSE(fs::exists(FailedFile(fleet_)));
  EXPECT_EQ(Cancelled(), "");
  // An address that is bound twice is refused by Redis.
  EXPECT_THAT(TextOf(fleet_.RunFolder() + "/redis.conf"),
              testing::StartsWith("bind 127.0.0.1\nport 6390\nrequirepass secret\n"));
}

}  // namespace
}  // namespace tidemill
