// What an acknowledgement is worth: processes killed and power cut while trajectories are written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "store/run_reader.h"
#include "store/store_thread.h"
#include "testing/faulty_vfs.h"
#include "testing/store_samples.h"

namespace tidemill {
namespace {

// Writes trajectories from `first` on without end, and each number to `fd` once it is acknowledged.
// In a process of its own, which is killed.
[[noreturn]] void WriteUntilKilled(const std::string& path, uint64_t first, int fd) {
  RealClock clock;
  StoreThread store(OpenDb(path), clock);
  Bell bell;
  auto port = store.NewClient(32);
  port->events().Attach(bell);
  uint64_t next = first, owed = 0;
  while (true) {
    for (; owed < 32; ++owed, ++next) {
      port->Submit(PutTrajectory{SampleTrajectory(SampleId(next, 0), 300)}, next);
    }
    bell.Wait();
    for (const StoreDone& done : port->events().TakeAll()) {
      --owed;
      if (!done.status.ok()) _exit(3);
      if (write(fd, &done.tag, sizeof done.tag) != sizeof done.tag) _exit(4);
    }
  }
}

// The numbers acknowledged before the process was killed, which happens after `enough` of them.
std::set<uint64_t> RunAndKill(const std::string& path, uint64_t first, uint64_t enough) {
  int pipe_fds[2];
  TM_CHECK(pipe(pipe_fds) == 0, "pipe");
  const pid_t child = fork();
  TM_CHECK(child >= 0, "fork");
  if (child == 0) {
    close(pipe_fds[0]);
    WriteUntilKilled(path, first, pipe_fds[1]);
  }
  close(pipe_fds[1]);
  std::set<uint64_t> acknowledged;
  uint64_t number = 0;
  bool killed = false;
  // What is in the pipe was acknowledged before the end, so it is read to the end.
  while (read(pipe_fds[0], &number, sizeof number) == sizeof number) {
    acknowledged.insert(number);
    if (!killed && acknowledged.size() >= enough) {
      kill(child, SIGKILL);
      killed = true;
    }
  }
  close(pipe_fds[0]);
  int status = 0;
  TM_CHECK(waitpid(child, &status, 0) == child, "waitpid");
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself, status " << status;
  return acknowledged;
}

std::set<uint64_t> Stored(RunDb& db) {
  auto state = db.LoadForResume(1);
  TM_CHECK(state.ok(), state.status().ToString());
  std::set<uint64_t> groups;
  for (const auto& stored : state->trajectories) groups.insert(stored.trajectory.id().group());
  return groups;
}

TEST(StoreCrash, WhatWasAcknowledgedIsThereAfterTheProcessWasKilled) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  TemporaryDirectory dir;
  std::set<uint64_t> promised;
  for (int round = 0; round < 30; ++round) {
    // Some rounds go on in the database the last kill left behind.
    const std::string path = dir / ("run" + std::to_string(round / 3) + ".db");
    if (round % 3 == 0) promised.clear();
    const auto acknowledged =
        RunAndKill(path, 1 + static_cast<uint64_t>(round) * 1'000'000, random.Below(400));
    promised.insert(acknowledged.begin(), acknowledged.end());
    auto db = OpenDb(path);
    ASSERT_TRUE(db->CheckIntegrity().ok());
    const std::set<uint64_t> stored = Stored(*db);
    for (const uint64_t number : promised) {
      ASSERT_EQ(stored.count(number), 1U) << "round " << round << " lost " << number;
    }
  }
}

TEST(StoreCrash, WhatWasAcknowledgedWasSyncedBefore) {
  TemporaryDirectory dir;
  FaultyVfs disk;
  RunDb::Options how;
  how.vfs = disk.name();
  auto db = OpenDb(dir / "run.db", how);
  for (uint64_t group = 1; group <= 30; ++group) {
    const StoreOp op = PutTrajectory{SampleTrajectory(SampleId(group, 0), 200)};
    ASSERT_TRUE(db->ApplyOne(op).ok());
    TemporaryDirectory left;
    disk.LeaveAfterPowerCut(left.path());
    auto again = OpenDb(left / "run.db");
    ASSERT_TRUE(again->CheckIntegrity().ok());
    ASSERT_EQ(Stored(*again).size(), group)
        << "lost by a power cut right after the acknowledgement";
  }
  db.reset();
}

TEST(StoreCrash, ATornLogLosesOnlyWhatWasTornOff) {
  TemporaryDirectory dir;
  auto db = OpenDb(dir / "run.db");
  const std::string wal = dir / "run.db-wal";
  std::vector<uint64_t> end_of_log;  // after each transaction
  for (uint64_t group = 1; group <= 20; ++group) {
    const StoreOp op = PutTrajectory{SampleTrajectory(SampleId(group, 0), 200)};
    ASSERT_TRUE(db->ApplyOne(op).ok());
    end_of_log.push_back(std::filesystem::file_size(wal));
  }
  Random random(11);
  for (int round = 0; round < 20; ++round) {
    TemporaryDirectory torn;
    std::filesystem::copy(dir / "run.db", torn / "run.db");
    std::filesystem::copy(wal, torn / "run.db-wal");
    const uint64_t cut = end_of_log[0] + random.Below(end_of_log.back() - end_of_log[0] + 1);
    std::filesystem::resize_file(torn / "run.db-wal", cut);
    // Bytes of a write that was under way when it tore.
    std::ofstream(torn / "run.db-wal", std::ios::app | std::ios::binary)
        << std::string(5000, '\x5a');
    size_t whole = 0;
    while (whole < end_of_log.size() && end_of_log[whole] <= cut) ++whole;
    auto again = OpenDb(torn / "run.db");
    ASSERT_TRUE(again->CheckIntegrity().ok());
    EXPECT_EQ(Stored(*again).size(), whole) << "cut at " << cut;
    const StoreOp op = PutTrajectory{SampleTrajectory(SampleId(99, 0))};
    EXPECT_TRUE(again->ApplyOne(op).ok()) << "the run goes on";
  }
}

}  // namespace
}  // namespace tidemill
