// Streams through the engine's thread: many clients, weights that change, hang-ups.
#include <atomic>
#include <thread>

#include "engine/engine_port.h"
#include "testing/ledger_run.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

std::unique_ptr<Engine> StreamingEngine(int32_t pages) {
  return NewBatchEngine({.scheduling = {.pages = pages, .max_context = 100'000, .max_running = 64},
                         .vocabulary = kLedgerVocabulary,
                         .version = 1},
                        std::make_unique<LedgerBackend>(pages, 1, 1));
}

class EngineStreamTest : public testing::Test {
 protected:
  EngineStreamTest() { thread_.feed().Attach(bell_); }

  static SequenceStart Stream(SequenceId id, int32_t tokens) {
    return {.id = id,
            .prompt = LedgerPrompt(40, id % 3),
            .turn = {.max_new_tokens = tokens, .seed = id},
            .tenant = 1,
            .service = SequenceClass::kLive,
            .stream = true};
  }
  // Until `id` ended or failed.
  TurnDelta Await(SequenceId id) {
    TurnDelta whole;
    while (!whole.done && whole.status.ok()) {
      bell_.Wait();
      for (TurnDelta& delta : thread_.feed().TakeAll()) {
        if (delta.part.id != id) continue;
        AppendPart(whole.part, std::move(delta.part));
        whole.done = delta.done;
        whole.status = delta.status;
      }
    }
    return whole;
  }

  RealClock clock_;
  Bell bell_;
  std::unique_ptr<WeightChannel> channel_ = NewLocalWeightChannel();
  EngineThread thread_{StreamingEngine(13'000), *channel_, clock_, {}};
};

TEST_F(EngineStreamTest, DeltasMakeTheWholeTurnAndNothingComesAsAnEvent) {
  thread_.Start(Stream(1, 50));
  const TurnDelta whole = Await(1);
  ASSERT_TRUE(whole.done);
  ASSERT_EQ(whole.part.ids.size(), 50u);
  std::vector<TokenId> all = LedgerPrompt(40, 1);
  for (const TokenId id : whole.part.ids) {
    ASSERT_EQ(id, PlainDraw(all, 1, 1).id);
    all.push_back(id);
  }
  EXPECT_TRUE(thread_.events().TakeAll().empty());
  thread_.Continue(1, {3}, {.max_new_tokens = 5});
  EXPECT_EQ(Await(1).part.ids.size(), 5u);
}

TEST_F(EngineStreamTest, WhatCannotStartIsToldInTheFeed) {
  SequenceStart start = Stream(4, 5);
  start.prompt = {};
  thread_.Start(start);
  EXPECT_EQ(Await(4).status.code(), Code::kInvalid);
  thread_.Continue(4, {}, {});
  thread_.Start(Stream(5, 2));
  Await(5);
  thread_.Continue(5, std::vector<TokenId>(100'000), {});
  EXPECT_EQ(Await(5).status.code(), Code::kInvalid);
}

TEST_F(EngineStreamTest, AHangUpFreesThePlaceWhileOthersGoOn) {
  thread_.Start(Stream(1, 1 << 30));
  thread_.Start(Stream(2, 1 << 30));
  // As soon as its first token is there the client is gone.
  bool first = false;
  while (!first) {
    bell_.Wait();
    for (const TurnDelta& delta : thread_.feed().TakeAll()) first |= delta.part.id == 1;
  }
  while (thread_.Stats().running < 2) std::this_thread::yield();  // the other may begin later
  std::thread([&] { thread_.Release(1); }).join();
  while (thread_.Stats().running == 2) std::this_thread::yield();
  EXPECT_EQ(thread_.Stats().running, 1u);
  thread_.Release(2);
  while (thread_.Stats().pages_used > 0) std::this_thread::yield();
}

TEST_F(EngineStreamTest, EpisodesAndClientsHaveFeedsOfTheirOwn) {
  Bell bell;
  thread_.episode_feed()->Attach(bell);
  SequenceStart episode = Stream(2, 1 << 30);
  episode.readers = TurnReaders::kEpisodes;
  thread_.Start(episode);
  thread_.Start(Stream(1, 20));
  EXPECT_EQ(Await(1).part.ids.size(), 20u);
  thread_.Interrupt(2);
  TurnDelta whole;
  while (!whole.done) {
    for (TurnDelta& delta : thread_.episode_feed()->TakeAll()) {
      ASSERT_EQ(delta.part.id, 2u);
      AppendPart(whole.part, std::move(delta.part));
      whole.done = delta.done;
    }
    if (!whole.done) bell.Wait();
  }
  EXPECT_EQ(whole.part.finish, TurnFinish::kInterrupted);
  thread_.Release(2);
  thread_.episode_feed()->Detach();
}

TEST_F(EngineStreamTest, ASlowReaderFindsOneDeltaATurn) {
  for (SequenceId id = 1; id <= 20; ++id) thread_.Start(Stream(id, 100));
  while (thread_.Stats().parked < 20) std::this_thread::yield();
  std::vector<TurnDelta> deltas = thread_.feed().TakeAll();
  ASSERT_EQ(deltas.size(), 20u);
  for (const TurnDelta& delta : deltas) {
    EXPECT_TRUE(delta.done);
    EXPECT_EQ(delta.part.ids.size(), 100u);
    EXPECT_EQ(delta.part.versions.size(), 1u);
  }
}

TEST_F(EngineStreamTest, ManyClientsAcrossManySwapsLoseNothing) {
  constexpr SequenceId kClients = 8, kRequests = 40;
  std::atomic<SequenceId> started = 0;
  std::vector<std::thread> clients;
  for (SequenceId client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (SequenceId i = 1; i <= kRequests; ++i) {
        const SequenceId id = client * 1000 + i;
        thread_.Start(Stream(id, 30));
        if (i % 4 == 0) thread_.Release(id);
        ++started;
      }
    });
  }
  std::thread publisher([&] {
    for (uint64_t version = 2; started < kClients * kRequests; ++version) {
      ASSERT_TRUE(
          channel_->Publish({version, version, std::make_shared<LedgerWeights>(version)}).ok());
      std::this_thread::yield();
    }
  });
  std::map<SequenceId, TurnOutput> whole;
  size_t done = 0;
  while (done < kClients * kRequests * 3 / 4) {
    bell_.Wait();
    for (TurnDelta& delta : thread_.feed().TakeAll()) {
      ASSERT_TRUE(delta.status.ok()) << delta.status.ToString();
      const SequenceId id = delta.part.id;
      AppendPart(whole[id], std::move(delta.part));
      if (!delta.done || id % 1000 % 4 == 0) continue;
      ++done;
      ASSERT_EQ(whole[id].ids.size(), 30u);
      uint32_t versioned = 0;
      for (const TokenVersionRun& run : whole[id].versions) versioned += run.tokens;
      ASSERT_EQ(versioned, 30u);
      thread_.Release(id);
    }
  }
  for (std::thread& client : clients) client.join();
  publisher.join();
  while (thread_.Stats().pages_used > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace tidemill
