#include "http/http_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "testing/http_client.h"
#include "testing/scripted_endpoint.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using Reaction = ScriptedEndpoint::Reaction;

// Runs a pool on the test's own thread until the calls it made have ended.
class HttpPoolTest : public testing::Test, public HttpCallUser {
 protected:
  void OnPiece(HttpCallId call, int, std::string_view bytes) override {
    pieces_[call].emplace_back(bytes);
    if (on_piece_) on_piece_(call);
  }
  void OnEnd(HttpCallId call, const Result<int>& status) override {
    ends_.emplace(call, status);
    if (ends_.size() >= wanted_) pool_.Stop();
  }

  HttpCallId Ask(const ScriptedEndpoint& server, Duration silence = kPatience,
                 const std::string& body = "x") {
    const HttpUrl url = ParseHttpUrl(server.url()).value();
    return pool_.Begin(url, {.target = "/say", .headers = {}, .body = body}, silence, *this);
  }
  void RunUntilEnds(size_t calls) {
    wanted_ = calls;
    pool_.Run([this] {
      if (step_) step_();
      return std::chrono::steady_clock::now() + milliseconds(5);
    });
  }
  std::string Whole(HttpCallId call) {
    std::string all;
    for (const std::string& piece : pieces_[call]) all += piece;
    return all;
  }

  HttpPool pool_;
  std::map<HttpCallId, std::vector<std::string>> pieces_;
  std::map<HttpCallId, Result<int>> ends_;
  std::function<void(HttpCallId)> on_piece_;
  std::function<void()> step_;
  size_t wanted_ = 1;
};

TEST_F(HttpPoolTest, ManyCallsAtOnceAreAnsweredEachWithItsOwn) {
  ScriptedEndpoint server([](const std::string&, const std::string& body) {
    return Reaction{.bytes = ScriptedEndpoint::Answer(body == "7" ? 404 : 200, "you said " + body)};
  });
  std::vector<HttpCallId> calls;
  for (int i = 0; i < 50; ++i) calls.push_back(Ask(server, kPatience, std::to_string(i)));
  RunUntilEnds(50);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(ends_.at(calls[i]).ok()) << ends_.at(calls[i]).status().message();
    EXPECT_EQ(*ends_.at(calls[i]), i == 7 ? 404 : 200);
    EXPECT_EQ(Whole(calls[i]), "you said " + std::to_string(i));
  }
}

TEST_F(HttpPoolTest, AnAnswerInChunksIsWholeWhereverItIsCut) {
  // Far more than is read at once, in chunks of odd lengths.
  std::string chunks, said;
  for (int i = 0; i < 9000; ++i) {
    const std::string word(static_cast<size_t>(1 + i % 9), static_cast<char>('a' + i % 26));
    said += word;
    chunks += std::to_string(word.size()) + (i % 5 == 0 ? ";note=1" : "") + "\r\n" + word + "\r\n";
  }
  ScriptedEndpoint server([&](const std::string&, const std::string&) {
    return Reaction{.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks +
                             "0\r\n\r\n"};
  });
  const HttpCallId call = Ask(server);
  RunUntilEnds(1);
  ASSERT_TRUE(ends_.at(call).ok()) << ends_.at(call).status().message();
  EXPECT_EQ(Whole(call), said);
  EXPECT_GT(pieces_[call].size(), 1u);
}

TEST_F(HttpPoolTest, AConnectionIsKeptAndAClosedOneIsOpenedAgain) {
  ScriptedEndpoint server([](const std::string&, const std::string& body) {
    return Reaction{.bytes = ScriptedEndpoint::Answer(200, body), .close = body == "last"};
  });
  // One after the other on one pool.
  std::vector<std::string> words = {"a", "b", "last", "c"};
  size_t next = 0;
  step_ = [&] {
    if (ends_.size() == next && next < words.size()) Ask(server, kPatience, words[next++]);
  };
  RunUntilEnds(4);
  for (const auto& [call, end] : ends_) EXPECT_TRUE(end.ok()) << end.status().message();
  EXPECT_EQ(pool_.connections(), 2u);
}

TEST_F(HttpPoolTest, CancelClosesTheConnectionAndNothingMoreComes) {
  ScriptedEndpoint server([](const std::string&, const std::string& body) {
    if (body == "b") return Reaction{.bytes = ScriptedEndpoint::Answer(200, "b")};
    return Reaction{.bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"};
  });
  const HttpCallId stopped = Ask(server, kPatience, "a");
  HttpCallId other = 0;
  on_piece_ = [&](HttpCallId call) {
    if (call != stopped) return;
    pool_.Cancel(stopped);
    other = Ask(server, kPatience, "b");
  };
  RunUntilEnds(1);
  EXPECT_EQ(ends_.count(stopped), 0u);
  EXPECT_EQ(Whole(other), "b");
}

TEST_F(HttpPoolTest, SilenceADeadServerAndNonsenseEndTheCallWithTheReason) {
  ScriptedEndpoint silent([](const std::string&, const std::string&) { return Reaction{}; });
  ScriptedEndpoint nonsense([](const std::string&, const std::string&) {
    return Reaction{.bytes = "I am no server\r\n\r\n"};
  });
  ScriptedEndpoint torn([](const std::string&, const std::string&) {
    return Reaction{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", .close = true};
  });
  auto gone = std::make_unique<ScriptedEndpoint>(
      [](const std::string&, const std::string&) { return Reaction{}; });
  const HttpUrl nobody = ParseHttpUrl(gone->url()).value();
  gone.reset();
  const HttpCallId a = Ask(silent, milliseconds(50)), b = Ask(nonsense), c = Ask(torn);
  const HttpCallId d =
      pool_.Begin(nobody, {.target = "/", .headers = {}, .body = ""}, kPatience, *this);
  RunUntilEnds(4);
  for (const HttpCallId call : {a, b, c, d}) {
    EXPECT_EQ(ends_.at(call).status().code(), Code::kUnavailable);
  }
  EXPECT_NE(ends_.at(a).status().message().find("no answer in time"), std::string::npos);
  EXPECT_NE(ends_.at(b).status().message().find("no HTTP"), std::string::npos);
  EXPECT_NE(ends_.at(c).status().message().find("closed the connection"), std::string::npos);
}

TEST_F(HttpPoolTest, WakeFromAnotherThreadStepsAndStopEndsTheRun) {
  std::atomic<int> steps = 0;
  std::thread other([&] {
    while (steps == 0) std::this_thread::yield();
    pool_.Wake();
    while (steps == 1) std::this_thread::yield();
    pool_.Stop();
  });
  pool_.Run([&] {
    ++steps;
    return kNever;
  });
  other.join();
  EXPECT_GE(steps, 2);
}

}  // namespace
}  // namespace tidemill
