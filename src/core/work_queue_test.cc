#include "core/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <set>

namespace tidemill {
namespace {

using ::testing::ElementsAre;

// Lets a thread of the queue wait until the test says so.
struct Gate {
  std::promise<void> entered, open;
  void Pass() {
    entered.set_value();
    open.get_future().wait();
  }
};

TEST(WorkQueue, EachJobIsDoneOnceByOneOfTheThreads) {
  Mutex mutex;
  std::multiset<int> done;
  {
    WorkQueue<int> queue(1000, WorkQueue<int>::AtEnd::kFinish);
    for (int t = 0; t < 3; ++t) {
      queue.Start([&](int job) {
        MutexLock lock(mutex);
        done.insert(job);
      });
    }
    for (int job = 0; job < 1000; ++job) queue.Put(job);
  }
  ASSERT_EQ(done.size(), 1000u);
  for (int job = 0; job < 1000; ++job) EXPECT_EQ(done.count(job), 1u);
}

TEST(WorkQueue, WhatWaitsAtTheEndIsForgottenAndWhatIsUnderWayIsFinished) {
  Gate gate;
  std::vector<int> done;
  {
    WorkQueue<int> queue(10);
    queue.Start([&](int job) {
      if (job == 1) gate.Pass();
      done.push_back(job);
    });
    queue.Put(1);
    gate.entered.get_future().wait();
    queue.Put(2);
    queue.Stop();
    gate.open.set_value();
  }
  EXPECT_THAT(done, ElementsAre(1));
}

TEST(WorkQueue, JobsThatJoinAreTakenTogetherInTheirOrder) {
  Gate gate;
  std::vector<std::vector<int>> batches;
  {
    WorkQueue<int> queue(10, WorkQueue<int>::AtEnd::kFinish);
    queue.StartBatches(
        [&](std::vector<int> jobs) {
          if (jobs.front() == 0) gate.Pass();
          batches.push_back(std::move(jobs));
        },
        [](const std::vector<int>& jobs, int next) { return jobs.size() < 2 && next < 10; });
    queue.Put(0);
    gate.entered.get_future().wait();
    for (const int job : {1, 2, 3, 10, 11}) queue.Put(job);
    gate.open.set_value();
  }
  EXPECT_THAT(batches, ElementsAre(ElementsAre(0), ElementsAre(1, 2), ElementsAre(3),
                                   ElementsAre(10), ElementsAre(11)));
}

TEST(WorkQueue, ThereIsNoRoomForMoreThanItsCapacity) {
  WorkQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.TryPut(std::make_unique<int>(1)));
  EXPECT_FALSE(queue.TryPut(std::make_unique<int>(2)));
  EXPECT_DEATH(queue.Put(std::make_unique<int>(3)), "more was submitted");
}

}  // namespace
}  // namespace tidemill
