// The engine over a backend whose draws tell every wrong page (ledger_backend.h).
#include "engine/batch_engine.h"

#include "testing/ledger_run.h"

namespace tidemill {
namespace {

class BatchEngineTest : public testing::TestWithParam<int32_t> {
 protected:
  static LedgerOptions Steps(LedgerOptions options) {
    options.steps_at_once = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(StepsAtOnce, BatchEngineTest, testing::Values(1, 2));

TEST_P(BatchEngineTest, AStreamedTurnIsToldTokenByTokenAndIsTheSameAsAWholeOne) {
  LedgerRun run(Steps({}));
  run.Add({.id = 1,
           .prompt = LedgerPrompt(20),
           .turn = {.max_new_tokens = 9, .seed = 5},
           .stream = true});
  run.Add({.id = 2, .prompt = LedgerPrompt(20), .turn = {.max_new_tokens = 9, .seed = 5}});
  for (size_t told = 1; told <= 9; ++told) {
    run.Step();
    ASSERT_EQ(run.turns[1].ids.size(), told);
  }
  run.Finish();
  EXPECT_EQ(run.ends[1], 1);
  EXPECT_EQ(run.turns[1].ids, run.turns[2].ids);
  EXPECT_EQ(run.turns[1].logprobs, run.turns[2].logprobs);
  EXPECT_EQ(run.turns[1].finish, TurnFinish::kLength);
  EXPECT_EQ(run.turns[1].versions.size(), 1u);
  run.ExpectPlain(1);
}

TEST_P(BatchEngineTest, AnInterruptedTurnEndsBehindATokenAndGoesOnWithoutEncodingAny) {
  LedgerRun run(Steps({}));
  run.Add({.id = 1,
           .prompt = LedgerPrompt(20),
           .turn = {.max_new_tokens = 90, .seed = 5},
           .stream = true});
  for (int i = 0; i < 6; ++i) run.Step();
  const size_t before = run.turns[1].ids.size();
  run.engine().Interrupt(1);
  while (run.ends[1] == 0) run.Step();
  const TurnOutput cut = run.turns[1];
  EXPECT_EQ(cut.finish, TurnFinish::kInterrupted);
  EXPECT_EQ(cut.ids.size(), before + 1);
  run.ExpectPlain(1);
  run.Finish();  // a step that was under way draws for nobody
  EXPECT_EQ(run.ends[1], 1);
  run.engine().Interrupt(1);  // no turn is under way: the next one does not know of it
  const size_t rows = run.backend().rows;
  run.tokens[1] = Join(Join(run.tokens[1], cut.ids), {3, 4});
  run.turns[1] = {};
  ASSERT_TRUE(run.engine().Continue(1, {3, 4}, {.max_new_tokens = 30, .seed = 5}).ok());
  run.Finish();
  EXPECT_EQ(run.turns[1].finish, TurnFinish::kLength);
  run.ExpectPlain(1);
  // The token drawn last, the two that were appended, and all but the last of the thirty.
  EXPECT_LE(run.backend().rows - rows, 1 + 2 + 30u);
}

TEST_P(BatchEngineTest, AReleaseFreesThePagesOfARunningSequenceAtOnce) {
  LedgerRun run(Steps({}));
  run.Add({.id = 1, .prompt = LedgerPrompt(90), .turn = {.max_new_tokens = 50}, .stream = true});
  run.Add({.id = 2, .prompt = LedgerPrompt(40, 2), .turn = {.max_new_tokens = 50}, .tenant = 3});
  for (int i = 0; i < 6; ++i) run.Step();
  ASSERT_GT(run.Stats().pages_used, 8u);
  run.Release(1);
  EXPECT_EQ(run.Stats().pages_used, 3u);
  run.Release(2);
  EXPECT_EQ(run.Stats().pages_used, 0u);
  EXPECT_EQ(run.Stats().pages_cached, 2u) << "the full pages of the tenant's";
  EXPECT_FALSE(run.Stats().running);
  run.Finish();
  EXPECT_TRUE(run.ends.empty());
}

TEST_P(BatchEngineTest, ALaterTurnComputesOnlyWhatIsNew) {
  LedgerRun run(Steps({.pages = 128, .max_context = 1000}));
  std::vector<TokenId> conversation = LedgerPrompt(400);
  for (SequenceId turn = 1; turn <= 10; ++turn) {
    const size_t before = run.backend().rows;
    run.Add({.id = turn,
             .prompt = conversation,
             .turn = {.max_new_tokens = 20, .seed = turn},
             .tenant = 1,
             .session = 8});
    run.Finish();
    run.ExpectPlain(turn);
    run.Release(turn);
    const TurnOutput& output = run.turns[turn];
    if (turn > 1) {
      // All but the last token of the turn before, which was drawn and never computed.
      EXPECT_EQ(output.cached_tokens, conversation.size() - 30 - 1);
      EXPECT_LE(run.backend().rows - before, 31 + 20u);
    }
    conversation = Join(Join(conversation, output.ids), LedgerPrompt(30, turn));
  }
  EXPECT_EQ(run.Stats().cache_lookups, 10u);
  EXPECT_EQ(run.Stats().cache_hits, 9u);
  EXPECT_GT(run.Stats().reused_tokens, 9 * 400u);
}

TEST_P(BatchEngineTest, NoTenantMeetsThePagesOfAnother) {
  LedgerRun run(Steps({}));
  run.Add({.id = 1,
           .prompt = LedgerPrompt(64),
           .turn = {.max_new_tokens = 1},
           .tenant = 1,
           .session = 9});
  run.Finish();
  run.Release(1);
  const auto cached = [&](SequenceId id, uint64_t tenant, uint64_t session) {
    run.Add({.id = id,
             .prompt = LedgerPrompt(64),
             .turn = {.max_new_tokens = 1},
             .tenant = tenant,
             .session = session});
    run.Finish();
    run.ExpectPlain(id);
    return run.turns[id].cached_tokens;
  };
  EXPECT_EQ(cached(2, 2, 9), 0u);
  EXPECT_EQ(cached(3, 0, 9), 0u);
  EXPECT_EQ(cached(4, 1, 0), 63u);
}

TEST_P(BatchEngineTest, AfterASwapThatKeepsASessionHasItsOwnPagesAndNobodyElseHas) {
  LedgerRun run(Steps({}));
  const auto cached = [&](SequenceId id, uint64_t session) {
    run.Add({.id = id,
             .prompt = LedgerPrompt(70),
             .turn = {.max_new_tokens = 1},
             .tenant = 1,
             .session = session});
    run.Finish();
    run.Release(id);
    return run.turns[id].cached_tokens;
  };
  EXPECT_EQ(cached(1, 5), 0u);
  run.Swap(2, CacheOnSwap::kKeep);
  EXPECT_EQ(cached(2, 6), 0u) << "another session";
  run.ExpectPlain(2);
  EXPECT_EQ(cached(3, 5), 69u);
  run.Swap(3, CacheOnSwap::kKeep);
  EXPECT_EQ(cached(4, 0), 0u) << "no session";
  run.ExpectPlain(4);
  EXPECT_EQ(cached(5, 0), 64u) << "computed by the one before, under the same weights";
  run.ExpectPlain(5);
  run.Swap(4, CacheOnSwap::kRebuild);
  EXPECT_EQ(cached(6, 5), 0u);
  run.ExpectPlain(6);
}

TEST_P(BatchEngineTest, WhatAFailedStepLeftIsNotUsedAgain) {
  LedgerRun run(Steps({}));
  run.Add({.id = 1,
           .prompt = LedgerPrompt(40),
           .turn = {.max_new_tokens = 4},
           .tenant = 1,
           .session = 2});
  run.Step();
  run.backend().fail_next = true;
  bool failed = false;
  for (int i = 0; i < 3 && !failed; ++i) failed = !run.engine().Step().ok();
  ASSERT_TRUE(failed);
  run.Release(1);
  EXPECT_EQ(run.Stats().pages_cached, 0u);
  run.Add({.id = 2,
           .prompt = LedgerPrompt(40),
           .turn = {.max_new_tokens = 4},
           .tenant = 1,
           .session = 2});
  run.Finish();
  EXPECT_EQ(run.turns[2].cached_tokens, 0u);
  run.ExpectPlain(2);
}

TEST_P(BatchEngineTest, ForcedTokensBeginTheTurnAndAreNotDrawn) {
  LedgerRun run(Steps({}));
  run.Add({.id = 1,
           .prompt = LedgerPrompt(20),
           .turn = {.max_new_tokens = 6, .seed = 3, .forced = {7, 8, 9}},
           .stream = true});
  run.Finish();
  const TurnOutput turn = run.turns[1];
  EXPECT_EQ(turn.forced, 3u);
  ASSERT_EQ(turn.ids.size(), 6u);
  EXPECT_EQ(std::vector<TokenId>(turn.ids.begin(), turn.ids.begin() + 3),
            (std::vector<TokenId>{7, 8, 9}));
  EXPECT_EQ(turn.logprobs[2], 0.0f);
  EXPECT_LT(turn.logprobs[3], 0.0f);
  run.ExpectPlain(1);
  EXPECT_EQ(run.Stats().generated_tokens, 3u);
  EXPECT_EQ(run.engine().Continue(1, {}, {.max_new_tokens = 2, .forced = {1, 2}}).code(),
            Code::kInvalid)
      << "nothing would be drawn";
  EXPECT_EQ(run.engine().Continue(1, {}, {.forced = {kLedgerVocabulary}}).code(), Code::kInvalid);
}

TEST_P(BatchEngineTest, AStopStringAcrossTokensEndsTheTurnAndSaysWhereItBegins) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    LedgerRun plain(Steps({}));
    plain.Add({.id = 1, .prompt = {1, 2}, .turn = {.max_new_tokens = 40, .seed = seed}});
    plain.Finish();
    std::string text;
    std::vector<size_t> token_of_byte;
    for (size_t i = 0; i < plain.turns[1].ids.size(); ++i) {
      const std::string bytes = LedgerBytes(plain.turns[1].ids[i]);
      text += bytes;
      token_of_byte.resize(text.size(), i);
    }
    // Two that end in the same token, in whichever order, and one that is not there.
    const size_t at = 11 + seed % 7;
    const std::vector<std::string> stops = {"zzzzzzz", text.substr(at + 2, 3), text.substr(at, 5)};
    size_t first = text.size(), which = 0, end = 0;
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t begins = text.find(stops[i]);
      if (begins == std::string::npos) continue;
      const size_t last_token = token_of_byte[begins + stops[i].size() - 1];
      if (first == text.size() || last_token < end || (last_token == end && begins < first)) {
        first = begins, which = i, end = last_token;
      }
    }
    LedgerRun run(Steps({}));
    run.Add({.id = 1,
             .prompt = {1, 2},
             .turn = {.max_new_tokens = 40, .stop_strings = stops, .seed = seed},
             .stream = true});
    run.Finish();
    const TurnOutput& turn = run.turns[1];
    ASSERT_EQ(turn.finish, TurnFinish::kStop);
    EXPECT_EQ(turn.ids.size(), end + 1) << "seed " << seed;
    EXPECT_EQ(turn.stop.byte, first);
    EXPECT_EQ(turn.stop.string, static_cast<int32_t>(which));
    EXPECT_EQ(turn.stop.token, token_of_byte[first]);
    found += turn.stop.token != end ? 1 : 0;
  }
  EXPECT_GT(found, 20) << "stop strings that span tokens";
}

TEST_P(BatchEngineTest, BytesThatMayBeginAStopStringAreHeld) {
  // Every token is one to three of the same letter; "ab" is never far from being begun.
  LedgerRun run(Steps({}));
  const std::vector<std::string> stops = {"abcdefghij", "bbbbbbbbbbbb"};
  run.Add({.id = 1,
           .prompt = {1, 2},
           .turn = {.max_new_tokens = 150, .stop_strings = stops, .seed = 1},
           .stream = true});
  std::string text;
  int held = 0;
  while (run.engine().Work()) {
    ASSERT_TRUE(run.engine().Step().ok());
    for (const TurnDelta& delta : run.engine().TakeDeltas()) {
      for (const TokenId id : delta.part.ids) text += LedgerBytes(id);
      size_t expected = 0;
      for (const std::string& stop : stops) {
        for (size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
          if (text.ends_with(stop.substr(0, n))) expected = std::max(expected, n);
        }
      }
      ASSERT_EQ(delta.part.held_bytes, expected) << text;
      held += expected > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(held, 3);
}

TEST_P(BatchEngineTest, APinnedSequenceKeepsItsVersionAndWithoutRoomAPinIsRefused) {
  LedgerRun one(Steps({}));
  const auto pin = [](SequenceId id, uint64_t version) {
    return SequenceStart{.id = id,
                         .prompt = LedgerPrompt(30),
                         .turn = {.max_new_tokens = 12, .seed = id},
                         .tenant = 1,
                         .pin_version = version};
  };
  EXPECT_EQ(one.engine().Add(pin(1, 1)).code(), Code::kUnavailable);
  EXPECT_EQ(one.engine().Add(pin(1, 9)).code(), Code::kNotFound);

  LedgerRun run(Steps({.versions = 2}));
  run.Add(pin(1, 1));
  run.Add({.id = 2,
           .prompt = LedgerPrompt(30),
           .turn = {.max_new_tokens = 12, .seed = 2},
           .tenant = 1});
  for (int i = 0; i < 4; ++i) run.Step();
  run.Swap(2, CacheOnSwap::kRebuild);
  EXPECT_EQ(run.engine().Add(pin(3, 2)).code(), Code::kUnavailable) << "1 is pinned already";
  run.Add(pin(4, 1));
  for (int i = 0; i < 3; ++i) run.Step();
  run.Swap(3, CacheOnSwap::kRebuild);
  EXPECT_EQ(run.engine().Add(pin(5, 2)).code(), Code::kNotFound);
  run.Finish();
  for (const SequenceId id : {1, 2, 4}) run.ExpectPlain(id);
  ASSERT_EQ(run.turns[1].versions.size(), 1u);
  EXPECT_EQ(run.turns[1].versions[0].version, 1u);
  EXPECT_EQ(run.turns[2].versions.size(), 3u);
  EXPECT_EQ(run.turns[4].versions.size(), 1u);
  EXPECT_GT(run.turns[4].cached_tokens, 0u) << "pages of version 1 are still known";
  EXPECT_EQ(run.Stats().versions_held, 2u);
  run.Release(1);
  run.Swap(4, CacheOnSwap::kRebuild);
  EXPECT_EQ(run.engine().Add(pin(6, 3)).code(), Code::kNotFound) << "4 still pins 1";
  run.Release(4);
  run.Add(pin(7, 4));
  run.Finish();
  run.ExpectPlain(7);
}

TEST_P(BatchEngineTest, AHeldVersionStaysWithoutSequencesAndMayHaveASecondNumber) {
  LedgerRun run(Steps({.versions = 3}));
  const auto pin = [](SequenceId id, uint64_t version) {
    return SequenceStart{.id = id,
                         .prompt = LedgerPrompt(30),
                         .turn = {.max_new_tokens = 4, .seed = id},
                         .pin_version = version};
  };
  ASSERT_TRUE(run.engine().Hold(1, 1).ok());
  for (const uint64_t version : {2, 3, 4}) run.Swap(version, CacheOnSwap::kRebuild);
  EXPECT_EQ(run.engine().Hold(2, 2).code(), Code::kNotFound);
  run.Add(pin(1, 1));
  run.Finish();
  run.ExpectPlain(1);
  run.Release(1);
  ASSERT_TRUE(run.engine().Hold(1, 9).ok());
  run.engine().Unhold(1);
  for (const uint64_t version : {10, 11, 12}) run.Swap(version, CacheOnSwap::kRebuild);
  run.Add(pin(2, 9));  // the same weights under another number
  run.Finish();
  ASSERT_EQ(run.turns[2].versions.size(), 1u);
  EXPECT_EQ(run.turns[2].versions[0].version, 9u);
  EXPECT_EQ(run.Stats().held, std::vector<uint64_t>{9});
  run.Release(2);
  run.engine().Unhold(9);
  for (const uint64_t version : {13, 14, 15}) run.Swap(version, CacheOnSwap::kRebuild);
  EXPECT_EQ(run.engine().Add(pin(3, 9)).code(), Code::kNotFound);
}

}  // namespace
}  // namespace tidemill
