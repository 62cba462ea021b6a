// Who runs and who makes room, where live sequences and those of training want the same.
#include "testing/ledger_run.h"

namespace tidemill {
namespace {

SequenceStart Start(SequenceId id, SequenceClass service, size_t prompt, int32_t tokens) {
  return {.id = id,
          .prompt = LedgerPrompt(prompt, id),
          .turn = {.max_new_tokens = tokens, .seed = id},
          .service = service};
}

TEST(Scheduler, LiveSequencesHaveTheirShareOfPlacesAtOnceAndTrainingTheRest) {
  LedgerRun run({.pages = 400, .max_running = 8, .live_share = 0.25});
  for (SequenceId id = 1; id <= 20; ++id) {
    run.Add(Start(id, SequenceClass::kTraining, 5, 60));
  }
  for (int i = 0; i < 3; ++i) run.Step();
  EXPECT_EQ(run.Stats().running, 8u);
  for (SequenceId id = 101; id <= 105; ++id) run.Add(Start(id, SequenceClass::kLive, 5, 10));
  run.Step();
  EXPECT_EQ(run.Stats().running, 8u);
  EXPECT_EQ(run.Stats().running_live, 2u);
  EXPECT_EQ(run.Stats().evictions, 0u) << "those that stepped aside keep their pages";
  run.Finish();
  EXPECT_EQ(run.Stats().rebuilt_tokens, 0u);
  for (const auto& [id, turn] : run.turns) run.ExpectPlain(id);
  EXPECT_EQ(run.turns.size(), 25u);
}

TEST(Scheduler, LiveSequencesMayUseAllThatTrainingLeaves) {
  LedgerRun run({.pages = 400, .max_running = 8, .live_share = 0.25});
  for (SequenceId id = 1; id <= 8; ++id) run.Add(Start(id, SequenceClass::kLive, 5, 10));
  run.Step();
  EXPECT_EQ(run.Stats().running_live, 8u);
  run.Finish();
}

TEST(Scheduler, ALivePromptIsFilledBesideALongOneOfTraining) {
  LedgerRun run({.pages = 400, .max_context = 1000, .prefill_chunk = 40, .live_share = 0.75});
  run.Add(Start(1, SequenceClass::kTraining, 900, 5));
  run.Add(Start(2, SequenceClass::kTraining, 900, 5));
  run.Step();
  run.Add(Start(3, SequenceClass::kLive, 120, 1));
  for (int i = 0; i < 4; ++i) run.Step();
  EXPECT_EQ(run.ends[3], 1) << "30 rows of each step are its";
  run.Finish();
  for (const SequenceId id : {1, 2, 3}) run.ExpectPlain(id);
}

TEST(Scheduler, LiveSequencesTakePagesUpToTheirShareAndNoMore) {
  // Room for two whole contexts of 6 pages and more; training has it all.
  LedgerRun run({.pages = 32, .max_context = 96, .max_running = 16, .live_share = 0.5});
  for (SequenceId id = 1; id <= 8; ++id) run.Add(Start(id, SequenceClass::kTraining, 60, 30));
  for (int i = 0; i < 20; ++i) run.Step();
  for (SequenceId id = 101; id <= 108; ++id) run.Add(Start(id, SequenceClass::kLive, 60, 30));
  size_t live = 0, training = 0;
  for (int i = 0; i < 60; ++i) {
    run.Step();
    live = std::max(live, run.Stats().running_live);
    training = std::max(training, run.Stats().running - run.Stats().running_live);
  }
  EXPECT_GE(live, 2u);
  EXPECT_GE(training, 2u);
  EXPECT_GT(run.ends[101], 0);
  run.Finish();
  EXPECT_EQ(run.turns.size(), 16u);
  for (const auto& [id, turn] : run.turns) run.ExpectPlain(id);
}

TEST(Scheduler, WithoutEndOfLiveSequencesTrainingFinishesAllTheSame) {
  LedgerRun run({.pages = 32, .max_context = 96, .max_running = 4, .live_share = 0.9});
  for (SequenceId id = 1; id <= 3; ++id) run.Add(Start(id, SequenceClass::kTraining, 60, 30));
  SequenceId next = 100;
  for (int i = 0; i < 600 && run.ends[1] + run.ends[2] + run.ends[3] < 3; ++i) {
    while (run.Stats().waiting_live < 5) run.Add(Start(next++, SequenceClass::kLive, 40, 20));
    run.Step();
  }
  EXPECT_EQ(run.ends[1] + run.ends[2] + run.ends[3], 3);
}

TEST(Scheduler, TheLongestUnusedGoesFirstFromTheCache) {
  LedgerRun run({.pages = 20, .max_context = 96});
  const auto cached = [&](SequenceId id, uint64_t prompt) {
    SequenceStart start = Start(id, SequenceClass::kLive, 0, 1);
    start.prompt = LedgerPrompt(80, prompt);
    start.tenant = 1;
    run.Add(start);
    run.Finish();
    run.Release(id);
    return run.turns[id].cached_tokens;
  };
  for (SequenceId id = 1; id <= 3; ++id) EXPECT_EQ(cached(id, id), 0u);
  EXPECT_EQ(cached(4, 1), 79u);
  // 15 pages are kept; a fourth prompt takes what of the second is missing, its end first.
  EXPECT_EQ(cached(5, 9), 0u);
  EXPECT_EQ(cached(6, 1), 79u);
  EXPECT_EQ(cached(7, 3), 79u);
  EXPECT_LT(cached(8, 2), 79u);
}

}  // namespace
}  // namespace tidemill
