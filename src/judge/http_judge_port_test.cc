// Judges behind a real HTTP server that is killed, slow, lying, flooding or malformed.
#include "judge/http_judge_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/loop_runner.h"
#include "core/topics.h"
#include "judge/judge_loop.h"
#include "testing/scripted_endpoint.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;
using Reaction = ScriptedEndpoint::Reaction;

std::string Completion(const std::string& content) {
  const nlohmann::json json = {
      {"choices", {{{"message", {{"role", "assistant"}, {"content", content}}}}}},
      {"usage", {{"prompt_tokens", 7}, {"completion_tokens", 3}}}};
  return ScriptedEndpoint::Answer(200, json.dump());
}

constexpr const char* kSaidGood = "{\"verdict\": \"good\", \"reason\": \"it passed\"}";

// The judge loop over the real port, on threads of its own.
class JudgeService {
 public:
  explicit JudgeService(JudgeConfig keys) : keys_(std::move(keys)) {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    EXPECT_TRUE(bus_.Open("asker", {}).ok());
    auto port = HttpJudgePort::Make({keys_});
    EXPECT_TRUE(port.ok()) << port.status().ToString();
    port_ = std::move(*port);
    JudgeOptions options;
    options.judges = {keys_};
    options.retry_delay = milliseconds(5);
    loop_ = std::make_unique<JudgeLoop>(bus_, clock_, options, *port_);
    runner_.Add(*loop_);
    EXPECT_TRUE(runner_.Start().ok());
  }

  void Ask(int number) {
    v1::JudgeRequest request;
    request.set_request_id("r" + std::to_string(number)), request.set_reply_to("asker");
    request.set_judge(keys_.name), request.set_prompt("p");
    v1::JudgedTurn& turn = *request.add_turns();
    turn.set_text("turn " + std::to_string(number)), turn.set_next("n");
    ASSERT_TRUE(bus_.PublishRequest(kJudgeTopic, "asker", request.SerializeAsString()).ok());
  }
  v1::JudgeAnswer Answer() {
    v1::JudgeAnswer answer;
    EXPECT_TRUE(Eventually([&] {
      const std::vector<Lease> leases = bus_.Receive("asker", 1).value();
      if (leases.empty()) return false;
      EXPECT_TRUE(answer.ParseFromString(leases[0].body));
      return bus_.Ack(leases[0]).ok();
    }));
    return answer;
  }
  const JudgeCounters& counters() const { return loop_->counters(); }

 private:
  JudgeConfig keys_;
  RealClock clock_;
  MemoryBus bus_{clock_};
  std::unique_ptr<HttpJudgePort> port_;
  std::unique_ptr<JudgeLoop> loop_;
  LoopRunner runner_;
};

JudgeConfig KeysAt(const std::string& url) {
  JudgeConfig keys;
  keys.name = "j", keys.endpoint = url, keys.model = "m", keys.task = "next_state";
  keys.timeout = std::chrono::seconds(20), keys.retries = 2;
  return keys;
}

TEST(HttpJudgePort, AsksAsAChatCompletionWithItsKeyAndKeepsConnections) {
  TemporaryDirectory folder;
  std::ofstream(folder / "key") << "sk-secret\n";
  ScriptedEndpoint server([](const std::string& head, const std::string& body) {
    EXPECT_THAT(head, HasSubstr("POST /v1/chat/completions "));
    EXPECT_THAT(head, HasSubstr("Authorization: Bearer sk-secret"));
    const auto json = nlohmann::json::parse(body);
    EXPECT_EQ(json["model"], "m");
    EXPECT_EQ(json["messages"].size(), 2u);
    return Reaction{.bytes = Completion(kSaidGood)};
  });
  JudgeConfig keys = KeysAt(server.url());
  keys.key_file = folder / "key", keys.votes = 3, keys.concurrency = 2;
  JudgeService service(keys);
  for (int i = 0; i < 5; ++i) service.Ask(i);
  for (int i = 0; i < 5; ++i) {
    const v1::JudgeAnswer answer = service.Answer();
    ASSERT_TRUE(answer.available()) << answer.cause();
    EXPECT_EQ(answer.judgements(0).value(), 1);
    EXPECT_EQ(answer.judgements(0).reason(), "it passed");
  }
  EXPECT_EQ(server.requests(), 15);
  EXPECT_LE(server.connections(), 2);
  EXPECT_EQ(service.counters().tokens_in, 15u * 7);
}

TEST(HttpJudgePort, AKilledJudgeIsAwayAndComesBack) {
  auto server = std::make_unique<ScriptedEndpoint>([](const std::string&, const std::string&) {
    return Reaction{.bytes = Completion(kSaidGood)};
  });
  const uint16_t port = server->port();
  JudgeConfig keys = KeysAt(server->url());
  keys.retries = 1;
  JudgeService service(keys);
  service.Ask(1);
  EXPECT_TRUE(service.Answer().available());
  server.reset();
  service.Ask(2);
  const v1::JudgeAnswer away = service.Answer();
  EXPECT_FALSE(away.available());
  EXPECT_EQ(away.judgements_size(), 0);
  EXPECT_THAT(away.cause(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  server = std::make_unique<ScriptedEndpoint>(
      [](const std::string&, const std::string&) {
        return Reaction{.bytes = Completion(kSaidGood)};
      },
      port);
  service.Ask(3);
  EXPECT_TRUE(service.Answer().available());
}

TEST(HttpJudgePort, AJudgeThatTakesThirtySecondsIsGivenUpAtItsTimeLimit) {
  ScriptedEndpoint server([](const std::string&, const std::string&) {
    return Reaction{.bytes = Completion(kSaidGood), .delay_ms = 30'000};
  });
  JudgeConfig keys = KeysAt(server.url());
  keys.timeout = milliseconds(100), keys.retries = 1;
  JudgeService service(keys);
  service.Ask(1);
  const v1::JudgeAnswer answer = service.Answer();
  EXPECT_FALSE(answer.available());
  EXPECT_THAT(answer.cause(), HasSubstr("no answer in time"));
  EXPECT_EQ(service.counters().failed, 2u);
}

TEST(HttpJudgePort, NonsenseAndFloodsAreFailedVotesAndNeverScores) {
  const std::string reactions[] = {
      Completion("It was good."),
      Completion("{\"verdict\": \"excellent\"}"),
      ScriptedEndpoint::Answer(200, "{\"choices\": []}"),
      ScriptedEndpoint::Answer(200, "{\"choices\": [{\"message\": {\"content\": 3}}]}"),
      ScriptedEndpoint::Answer(200, "not json"),
      ScriptedEndpoint::Answer(200, std::string(100'000, '[')),
      ScriptedEndpoint::Answer(500, "oops"),
      "garbage\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + std::string(100'000, 'x'),
  };
  for (const std::string& bytes : reactions) {
    const bool flood = bytes.find("99999999999") != std::string::npos;
    ScriptedEndpoint server([&](const std::string&, const std::string&) {
      return Reaction{.bytes = bytes, .close = bytes[0] == 'g', .flood = flood};
    });
    JudgeConfig keys = KeysAt(server.url());
    keys.retries = 1;
    JudgeService service(keys);
    service.Ask(1);
    const v1::JudgeAnswer answer = service.Answer();
    EXPECT_FALSE(answer.available()) << bytes.substr(0, 60);
    EXPECT_EQ(answer.judgements_size(), 0);
    EXPECT_FALSE(answer.cause().empty());
    EXPECT_EQ(service.counters().retries, 1u);
  }
}

TEST(HttpJudgePort, AJudgeThatAnswersOnlyNowAndThenGetsItsVotesThrough) {
  std::atomic<int> asked{0};
  ScriptedEndpoint server([&](const std::string&, const std::string&) {
    const int n = asked++;
    if (n % 3 == 0) return Reaction{.close = true};
    if (n % 3 == 1) return Reaction{.bytes = Completion("hm")};
    return Reaction{.bytes = Completion(kSaidGood)};
  });
  JudgeConfig keys = KeysAt(server.url());
  keys.retries = 20, keys.votes = 3, keys.concurrency = 1;
  JudgeService service(keys);
  for (int i = 0; i < 4; ++i) service.Ask(i);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(service.Answer().available());
}

TEST(HttpJudgePort, ALyingJudgeIsMeasuredByItsVotes) {
  std::atomic<uint64_t> asked{0};
  ScriptedEndpoint server([&](const std::string&, const std::string&) {
    const char* words[] = {"good", "bad", "neutral"};
    const uint64_t n = asked++;
    return Reaction{
        .bytes = Completion("{\"verdict\": \"" + std::string(words[n * 2654435761u % 3]) + "\"}")};
  });
  JudgeConfig keys = KeysAt(server.url());
  keys.votes = 5;
  JudgeService service(keys);
  for (int i = 0; i < 20; ++i) service.Ask(i);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(service.Answer().available());
  EXPECT_GT(service.counters().split, 15u);
}

TEST(HttpJudgePort, ARefusedKeyIsNotTriedAgain) {
  ScriptedEndpoint server([](const std::string&, const std::string&) {
    return Reaction{.bytes = ScriptedEndpoint::Answer(401, "{\"error\": \"no such key\"}")};
  });
  JudgeService service(KeysAt(server.url()));
  service.Ask(1);
  EXPECT_THAT(service.Answer().cause(), HasSubstr("no such key"));
  EXPECT_EQ(server.requests(), 1);
}

TEST(HttpJudgePort, SaysWhatIsWrongWithItsConfig) {
  const auto why = [](const JudgeConfig& keys) {
    return HttpJudgePort::Make({keys}).status().message();
  };
  JudgeConfig keys = KeysAt("localhost:80");
  EXPECT_THAT(why(keys), HasSubstr("must begin with http://"));
  keys = KeysAt("http://localhost");
  keys.key_env = "TIDEMILL_NO_SUCH_KEY";
  EXPECT_THAT(why(keys), HasSubstr("TIDEMILL_NO_SUCH_KEY"));
  keys.key_env = "", keys.key_file = "/nowhere";
  EXPECT_THAT(why(keys), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace tidemill
