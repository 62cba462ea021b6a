#include "policy/torch/scheduler.h"

#include <gtest/gtest.h>

#include <memory>

namespace tidemill {
namespace {

class SchedulerTest : public testing::Test {
 protected:
  Sequence& New(int tokens) {
    sequences_.push_back(std::make_unique<Sequence>());
    Sequence& sequence = *sequences_.back();
    sequence.id = sequences_.size();
    sequence.tokens.assign(static_cast<size_t>(tokens), 1);
    sequence.prompt_length = tokens;
    return sequence;
  }
  void Enqueue(Scheduler& scheduler, Sequence& sequence) {
    scheduler.Introduce(sequence);
    scheduler.Enqueue(sequence);
  }
  // One step: every sequence whose rows are all computed gets a token. The number of rows of
  // sequences that are being filled.
  int Step(Scheduler& scheduler) {
    int filled = 0;
    for (const PlannedRows& rows : scheduler.Plan()) {
      if (rows.rows > 1) filled += rows.rows;
      scheduler.Computed(*rows.sequence, rows.rows);
      if (rows.sequence->Pending() == 0) rows.sequence->tokens.push_back(1);
    }
    return filled;
  }

  std::vector<std::unique_ptr<Sequence>> sequences_;
};

TEST_F(SchedulerTest, APromptWaitsForOthersWhileNearlyAllPlacesDecodeButNotLong) {
  Scheduler scheduler({.pages = 4096, .max_running = 128, .prefill_chunk = 512, .hold_prompts = 3},
                      [](PageId, PageId) {});
  for (int i = 0; i < 100; ++i) Enqueue(scheduler, New(1));
  EXPECT_EQ(Step(scheduler), 0);
  Enqueue(scheduler, New(50));
  for (int held = 0; held < 3; ++held) EXPECT_EQ(Step(scheduler), 0) << held;
  EXPECT_EQ(Step(scheduler), 50);
  EXPECT_EQ(Step(scheduler), 0);
  // Four are more than a 32nd of those that decode.
  for (int i = 0; i < 4; ++i) Enqueue(scheduler, New(20));
  EXPECT_EQ(Step(scheduler), 80);
}

TEST_F(SchedulerTest, APromptWaitsForNobodyWhereFewDecodeOrWhereThatIsOff) {
  Scheduler few({.pages = 4096, .max_running = 128, .prefill_chunk = 512, .hold_prompts = 3},
                [](PageId, PageId) {});
  for (int i = 0; i < 31; ++i) Enqueue(few, New(1));
  EXPECT_EQ(Step(few), 0);
  Enqueue(few, New(50));
  EXPECT_EQ(Step(few), 50);

  Scheduler off({.pages = 4096, .max_running = 128, .prefill_chunk = 512}, [](PageId, PageId) {});
  for (int i = 0; i < 100; ++i) Enqueue(off, New(1));
  EXPECT_EQ(Step(off), 0);
  Enqueue(off, New(50));
  EXPECT_EQ(Step(off), 50);
}

}  // namespace
}  // namespace tidemill
