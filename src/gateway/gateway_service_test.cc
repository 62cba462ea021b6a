// The gateway under way: who may ask, what waits, who leaves, what is remembered, what is hostile.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "core/hash.h"
#include "core/mutex.h"
#include "testing/gateway_fixture.h"

namespace tidemill {
namespace {

class GatewayService : public GatewayTest {
 protected:
  // An answer that takes minutes: whoever waits for its end would be found by the test's limit.
  static ScriptedOptions Slow() {
    ScriptedOptions options;
    options.pace = std::chrono::milliseconds(2);
    options.context = 60'000;
    return options;
  }
  static std::string Endless() { return std::string(50'000, 'x'); }
  static Json Streamed(const std::string& text) {
    Json body = Chat(text);
    body["stream"] = true;
    return body;
  }
};

TEST_F(GatewayService, AClientThatLeavesFreesItsPlace) {
  Serve(Endless(), Slow());
  for (const bool stream : {true, false}) {
    {
      RawClient client(port());
      Json body = Chat("hi");
      body["stream"] = stream;
      client.Send(PostText("/v1/chat/completions", body.dump()));
      if (stream) client.ReadUntil("\"x\"");
      EXPECT_TRUE(Eventually([&] { return server_->engine().Stats().running_live == 1; }));
    }
    EXPECT_TRUE(Eventually([&] {
      return server_->gateway().counts().sequences == 0 &&
             server_->engine().Stats().running_live == 0;
    }));
  }
}

TEST_F(GatewayService, RequestsWaitForAPlaceAndAreRefusedWhereTheQueueIsFull) {
  ScriptedOptions options = Slow();
  options.gateway.loop.sequences_max = 1;
  options.gateway.admission.requests_max = 2;
  Serve(
      [](const std::string& prompt) {
        return prompt.find("long") != std::string::npos ? Endless() : "short";
      },
      std::move(options));
  auto first = std::make_unique<RawClient>(port());
  first->Send(PostText("/v1/chat/completions", Streamed("long").dump()));
  first->ReadUntil("\"x\"");
  RawClient second(port());
  second.Send(PostText("/v1/chat/completions", Chat("quick").dump()));
  EXPECT_TRUE(Eventually([&] { return server_->gateway().counts().waiting == 1; }));
  const std::string refused = PostRaw("/v1/responses", R"({"model":"m","input":"hi"})");
  EXPECT_EQ(StatusOf(refused), 429);
  EXPECT_NE(refused.find("Retry-After: 2\r\n"), std::string::npos) << refused;
  EXPECT_EQ(Json::parse(BodyOf(refused))["error"]["code"], "rate_limit_exceeded");
  first.reset();  // leaves, and its place goes to the one that waited
  EXPECT_NE(second.ReadToEnd().find("\"short\""), std::string::npos);
}

TEST_F(GatewayService, KeysSayWhoMayAndHowMuch) {
  const std::string key = "tmk-secret";
  ScriptedOptions options;
  options.gateway.keys = ApiKeys::Parse("# people\nsha256:" + Sha256Hex(key) +
                                            " tenant=lab rate=6 concurrency=3 consent=none\n",
                                        "keys")
                             .value();
  Serve("hello", std::move(options));
  const std::string body = Chat("hi").dump();
  const std::string none = PostRaw("/v1/chat/completions", body);
  EXPECT_EQ(StatusOf(none), 401);
  EXPECT_EQ(Json::parse(BodyOf(none))["error"]["code"], "invalid_api_key");
  EXPECT_EQ(StatusOf(PostRaw("/v1/messages", body, "x-api-key: tmk-other\r\n")), 401);
  RawClient health(port());
  health.Get("/healthz");
  EXPECT_EQ(StatusOf(health.ReadAnswer()), 200);
  EXPECT_EQ(
      StatusOf(PostRaw("/v1/chat/completions", body, "Authorization: Bearer " + key + "\r\n")),
      200);
  const std::string over = PostRaw("/v1/chat/completions", body, "x-api-key: " + key + "\r\n");
  EXPECT_EQ(StatusOf(over), 429);
  EXPECT_NE(over.find("Retry-After: 10\r\n"), std::string::npos) << over;
}

TEST_F(GatewayService, WhoMayNotComeInNeedNotSendItsBody) {
  const std::string key = "tmk-secret";
  ScriptedOptions options = Slow();
  options.gateway.keys =
      ApiKeys::Parse("sha256:" + Sha256Hex(key) + " tenant=lab concurrency=1\n", "keys").value();
  Serve(Endless(), std::move(options));
  const std::string bearer = "Authorization: Bearer " + key + "\r\n";
  RawClient first(port());
  first.Send(PostText("/v1/chat/completions", Streamed("long").dump(), bearer));
  first.ReadUntil("\"x\"");
  RawClient second(port());
  second.Send("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + bearer +
              "Content-Length: 30000000\r\nExpect: 100-continue\r\n\r\n");
  const std::string refused = second.ReadToEnd();
  EXPECT_EQ(StatusOf(refused), 429) << refused;
  EXPECT_NE(refused.find("\"rate_limit_error\""), std::string::npos) << refused;
}

TEST_F(GatewayService, APlaceIsFreeAgainWhenABodyDoesNotCome) {
  ScriptedOptions options;
  options.gateway.admission.requests_max = 1;
  Serve("fine", std::move(options));
  {
    RawClient half(port());
    half.Send(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
        "Expect: 100-continue\r\n\r\n");
    half.ReadUntil("100 Continue");
    EXPECT_EQ(StatusOf(PostRaw("/v1/chat/completions", Chat("hi").dump())), 429);
  }
  EXPECT_TRUE(Eventually(
      [&] { return StatusOf(PostRaw("/v1/chat/completions", Chat("hi").dump())) == 200; }));
}

TEST_F(GatewayService, MetricsAreForKeysThatMayReadThem) {
  ScriptedOptions options;
  options.gateway.keys = ApiKeys::Parse("sha256:" + Sha256Hex("tmk-one") + " tenant=one\nsha256:" +
                                            Sha256Hex("tmk-ops") + " tenant=ops metrics=yes\n",
                                        "keys")
                             .value();
  Serve("hello", std::move(options));
  EXPECT_EQ(StatusOf(PostRaw("/v1/chat/completions", Chat("hi").dump(), "x-api-key: tmk-one\r\n")),
            200);
  const auto metrics = [&](const std::string& key) {
    RawClient client(port());
    client.Get("/metrics", "x-api-key: " + key + "\r\nConnection: close\r\n");
    return client.ReadToEnd();
  };
  EXPECT_EQ(StatusOf(metrics("tmk-none")), 401);
  const std::string refused = metrics("tmk-one");
  EXPECT_EQ(StatusOf(refused), 403) << refused;
  EXPECT_NE(refused.find("metrics=yes"), std::string::npos) << refused;
  EXPECT_TRUE(
      Eventually([&] { return metrics("tmk-ops").find("tenant=\"one\"") != std::string::npos; }));
}

TEST_F(GatewayService, WhatAnOperatorWaitsForDelaysNobody) {
  Mutex mutex;
  CondVar changed;
  bool done = false;
  ScriptedOptions options;
  options.gateway.workers = 1;
  options.gateway.operate = [&](const HttpRequest&) {
    MutexLock lock(mutex);
    changed.Wait(lock, [&] { return done; });
    return TextResponse(200, "deleted");
  };
  Serve("hello", std::move(options));
  RawClient one(port()), two(port());
  for (RawClient* client : {&one, &two}) client->Send(PostText("/live/delete", "{}"));
  EXPECT_EQ(StatusOf(PostRaw("/v1/chat/completions", Chat("hi").dump())), 200);
  {
    MutexLock lock(mutex);
    done = true;
  }
  changed.NotifyAll();
  EXPECT_NE(one.ReadToEnd().find("deleted"), std::string::npos);
  EXPECT_NE(two.ReadToEnd().find("deleted"), std::string::npos);
}

TEST_F(GatewayService, NothingListensOutsideLoopbackWithoutKeys) {
  Serve("x");
  GatewayOptions options;
  options.host = "0.0.0.0";
  options.plan.context_tokens = 100;
  PlainRecorder recorder(server_->policy());
  RealClock clock;
  const auto refused = Gateway::Start(std::move(options), server_->policy(), server_->engine(),
                                      recorder, clock, server_->metrics());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("API keys"), std::string::npos);
}

TEST_F(GatewayService, WeightsSwapUnderAStreamAndEveryTokenSaysItsVersion) {
  ScriptedOptions options;
  options.pace = std::chrono::milliseconds(1);
  Serve(std::string(400, 'y'), std::move(options));
  Json body = Streamed("hi");
  body["return_token_ids"] = true;
  RawClient client(port());
  client.Send(PostText("/v1/chat/completions", body.dump()));
  client.ReadUntil("\"y\"");
  server_->Publish(2);
  std::vector<int> versions;
  const std::string answer = client.ReadToEnd();
  for (const std::string& event : Events(answer)) {
    const Json chunk = Json::parse(event, nullptr, false);
    if (!chunk.is_object() || chunk["choices"].empty()) continue;
    if (!chunk["choices"][0].contains("policy_versions")) continue;
    for (const int version : chunk["choices"][0]["policy_versions"]) versions.push_back(version);
  }
  ASSERT_EQ(versions.size(), 401u);
  EXPECT_EQ(versions.front(), 1);
  EXPECT_EQ(versions.back(), 2);
  EXPECT_TRUE(std::is_sorted(versions.begin(), versions.end()));
}

TEST_F(GatewayService, AVersionThatIsNotThereIsAConflict) {
  Serve("x");
  const Json error = Ask("/v1/chat/completions", Chat("hi"), 409, "x-policy-version: 7\r\n");
  EXPECT_EQ(error["error"]["code"], "policy_version_unavailable");
  (void)Ask("/v1/chat/completions", Chat("hi"), 400, "x-policy-version: newest\r\n");
}

// Keeps what it is told and lets the end be seen when the test says so.
class HeldRecorder final : public TurnRecorder {
 public:
  explicit HeldRecorder(const std::string& dir)
      : policy_(ReadServedPolicy(dir).value()), plain_(policy_) {}

  Result<TurnPrompt> Prepare(const TurnQuestion& question) override {
    TM_ASSIGN_OR_RETURN(TurnPrompt prompt, plain_.Prepare(question));
    MutexLock lock(mutex_);
    headers_ = question.headers;
    prompt.ticket = 42;
    prompt.session_name = "s1";
    return prompt;
  }
  void Finished(RecordedTurn turn, std::function<void(Status)> stored) override {
    MutexLock lock(mutex_);
    finished_.push_back(std::move(turn));
    stored_ = std::move(stored);
  }
  void Abandoned(RecordedTurn turn, TurnLoss, const Status&) override {
    MutexLock lock(mutex_);
    abandoned_.push_back(std::move(turn));
  }

  size_t finished() {
    MutexLock lock(mutex_);
    return finished_.size();
  }
  size_t abandoned() {
    MutexLock lock(mutex_);
    return abandoned_.size();
  }
  RecordedTurn first_finished() {
    MutexLock lock(mutex_);
    return finished_.at(0);
  }
  RecordedTurn first_abandoned() {
    MutexLock lock(mutex_);
    return abandoned_.at(0);
  }
  std::map<std::string, std::string> headers() {
    MutexLock lock(mutex_);
    return headers_;
  }
  void Answer(Status status) {
    std::function<void(Status)> stored;
    {
      MutexLock lock(mutex_);
      stored = std::move(stored_);
    }
    stored(std::move(status));
  }

 private:
  const ServedPolicy policy_;
  PlainRecorder plain_;
  Mutex mutex_;
  std::vector<RecordedTurn> finished_ TM_GUARDED_BY(mutex_);
  std::vector<RecordedTurn> abandoned_ TM_GUARDED_BY(mutex_);
  std::map<std::string, std::string> headers_ TM_GUARDED_BY(mutex_);
  std::function<void(Status)> stored_ TM_GUARDED_BY(mutex_);
};

TEST_F(GatewayService, TheEndIsSeenWhenTheTurnIsStored) {
  HeldRecorder recorder(dir_.path());
  Serve(
      [](const std::string&) {
        return "ok <tool_call>\n{\"name\": \"run\", \"arguments\": {\"c\": \"ls\"}}\n</tool_call>";
      },
      {}, &recorder);
  RawClient client(port());
  Json body = WithTool(Streamed("hi"));
  client.Send(PostText("/v1/chat/completions", body.dump(), "Authorization: Bearer key\r\n"));
  EXPECT_TRUE(Eventually([&] { return recorder.finished() == 1; }));
  const std::string before = client.ReadUntil("arguments");
  EXPECT_EQ(before.find("tool_calls\"}"), std::string::npos) << before;
  EXPECT_NE(before.find("x-session-id: s1\r\n"), std::string::npos);
  EXPECT_EQ(recorder.headers().count("authorization"), 0u);
  EXPECT_EQ(recorder.headers().count("host"), 1u);
  const RecordedTurn turn = recorder.first_finished();
  EXPECT_EQ(turn.ticket, 42u);
  EXPECT_EQ(turn.output.ids.back(), 258);
  EXPECT_EQ(turn.output.logprobs.size(), turn.output.ids.size());
  EXPECT_EQ(turn.message["tool_calls"][0]["function"]["arguments"]["c"], "ls");
  recorder.Answer(Ok());
  const std::string answer = client.ReadToEnd();
  EXPECT_NE(answer.find("[DONE]"), std::string::npos);
  // The id the recorder was told is the one the client got.
  EXPECT_NE(answer.find(turn.message["tool_calls"][0]["id"].get<std::string>()), std::string::npos);

  RawClient unlucky(port());
  unlucky.Send(PostText("/v1/chat/completions", Chat("hi").dump()));
  EXPECT_TRUE(Eventually([&] { return recorder.finished() == 2; }));
  recorder.Answer(Unavailable("the disk is full"));
  EXPECT_EQ(StatusOf(unlucky.ReadToEnd()), 503);
}

TEST_F(GatewayService, WhatIsGivenUpIsAbandonedOnce) {
  HeldRecorder recorder(dir_.path());
  ScriptedOptions options = Slow();
  Serve([](const std::string&) { return Endless(); }, std::move(options), &recorder);
  {
    RawClient client(port());
    Json body = Streamed("hi");
    body["n"] = 2;
    client.Send(PostText("/v1/chat/completions", body.dump()));
    client.ReadUntil("\"x\"");
  }
  EXPECT_TRUE(Eventually([&] { return recorder.abandoned() == 2; }));
  EXPECT_FALSE(recorder.first_abandoned().output.ids.empty());
  Json too_long = Chat(std::string(70'000, 'a'));
  (void)Ask("/v1/chat/completions", too_long, 400);
  EXPECT_EQ(recorder.abandoned(), 3u);
  EXPECT_EQ(recorder.finished(), 0u);
}

TEST_F(GatewayService, AnIdleStreamIsKeptAlive) {
  ScriptedOptions options = Slow();
  options.gateway.loop.sequences_max = 1;
  options.gateway.loop.heartbeat = std::chrono::milliseconds(40);
  Serve(Endless(), std::move(options));
  RawClient first(port());
  first.Send(PostText("/v1/chat/completions", Streamed("hi").dump()));
  first.ReadUntil("\"x\"");
  // These wait for a place: all they get is what keeps them.
  RawClient chat(port());
  chat.Send(PostText("/v1/chat/completions", Streamed("hi").dump()));
  EXPECT_NE(chat.ReadUntil(": ping").find(": ping"), std::string::npos);
  RawClient messages(port());
  Json body = Streamed("hi");
  body["max_tokens"] = 5;
  messages.Send(PostText("/v1/messages", body.dump()));
  EXPECT_NE(messages.ReadUntil("event: ping").find("event: ping"), std::string::npos);
}

TEST_F(GatewayService, ASlowReaderGetsTheSameTextInFewerPieces) {
  ScriptedOptions options;
  options.gateway.loop.slow_bytes = 2000;
  Serve(std::string(2000, 'x'), std::move(options));
  RawClient client(port(), 4096);
  Json body = Streamed("hi");
  body["logprobs"] = true;
  body["top_logprobs"] = 20;  // megabytes, more than the sockets hold
  client.Send(PostText("/v1/chat/completions", body.dump()));
  client.ReadUntil("\"delta\"");
  // It does not read until the engine is done.
  EXPECT_TRUE(Eventually([&] { return server_->gateway().counts().sequences == 0; }));
  size_t letters = 0;
  const auto events = Events(client.ReadToEnd());
  for (const std::string& event : events) {
    const Json chunk = Json::parse(event, nullptr, false);
    if (chunk.is_object()) {
      letters += chunk["choices"][0]["delta"].value("content", "").size();
    }
  }
  EXPECT_EQ(letters, 2000u);
  EXPECT_LT(events.size(), 2000u);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(GatewayService, AStopLetsWhatIsUnderWayEnd) {
  ScriptedOptions options;
  options.pace = std::chrono::milliseconds(1);
  Serve(std::string(300, 'z'), std::move(options));
  RawClient client(port());
  client.Send(PostText("/v1/chat/completions", Streamed("hi").dump()));
  client.ReadUntil("\"z\"");
  EXPECT_TRUE(server_->gateway().Drain(kPatience).ok());
  EXPECT_NE(client.ReadToEnd().find("[DONE]"), std::string::npos);
}

TEST_F(GatewayService, TheAccessLogHasOneLineARequestAndNoText) {
  ScriptedOptions options;
  options.gateway.access_log = dir_ / "access.jsonl";
  Serve("the answer", std::move(options));
  (void)Ask("/v1/chat/completions", Chat("the question"), 200,
            "User-Agent: test/1\r\nAuthorization: Bearer hidden\r\n");
  (void)Ask("/v1/chat/completions", {{"model", "m"}}, 400);
  server_.reset();
  std::ifstream file(dir_ / "access.jsonl");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str().find("question"), std::string::npos);
  EXPECT_EQ(text.str().find("hidden"), std::string::npos);
  std::map<int, Json> lines;  // by status: the two may end in either order
  for (std::string line; std::getline(text, line);) {
    const Json one = Json::parse(line);
    lines[one["status"]] = one;
  }
  ASSERT_EQ(lines.size(), 2u) << text.str();
  ASSERT_TRUE(lines.contains(400));
  const Json& first = lines[200];
  EXPECT_EQ(first["tenant"], "default");
  EXPECT_EQ(first["completion_tokens"], 11);
  EXPECT_EQ(first["finish"], "stop");
  EXPECT_EQ(first["user_agent"], "test/1");
}

TEST_F(GatewayService, AConversationTheTemplateRefusesIsAnErrorOfTheRequest) {
  std::ofstream(dir_ / "chat_template.jinja")
      << "{{ raise_exception('chat_template: roles must alternate') }}";
  Serve("x");
  const Json error = Ask("/v1/chat/completions", Chat("hi"), 400);
  EXPECT_NE(error["error"]["message"].get<std::string>().find("chat_template"), std::string::npos)
      << error;
}

TEST_F(GatewayService, ToolsThatTheTemplateDoesNotShowAreDescribedAndTheAnswerSaysSo) {
  std::ofstream(dir_ / "chat_template.jinja")
      << "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
         "{% endfor %}{{ '<|im_start|>assistant\n' }}";
  Serve("<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>");
  const Json plain = Ask("/v1/chat/completions", Chat("hi"));
  const std::string raw = PostRaw("/v1/chat/completions", WithTool(Chat("hi")).dump());
  const Json shown = Json::parse(BodyOf(raw));
  EXPECT_GT(shown["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"].get<int>() + 100);
  EXPECT_EQ(shown["choices"][0]["message"]["tool_calls"].size(), 1u) << shown;
  EXPECT_NE(raw.find("x-tidemill-warning: the chat template does not show tools"),
            std::string::npos)
      << raw;
  EXPECT_EQ(PostRaw("/v1/chat/completions", Chat("hi").dump()).find("x-tidemill-warning"),
            std::string::npos);
}

TEST_F(GatewayService, ManyStreamsAcrossManySwapsAllEnd) {
  ScriptedOptions options;
  options.pages = 40'000;
  Serve("an answer of some length, the same for all", std::move(options));
  std::atomic<bool> done{false};
  std::thread swaps([&] {
    for (uint64_t version = 2; !done; ++version) {
      server_->Publish(version);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  constexpr int kClients = 64;
  constexpr int kRounds = 8;
  int complete = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.push_back(std::make_unique<RawClient>(port()));
      clients.back()->Send(PostText("/v1/chat/completions", Streamed("hi").dump()));
    }
    for (const auto& client : clients) {
      complete += client->ReadToEnd().find("[DONE]") != std::string::npos ? 1 : 0;
    }
  }
  done = true;
  swaps.join();
  EXPECT_EQ(complete, kClients * kRounds);
  EXPECT_GT(server_->engine().Stats().swaps, 3u);
}

}  // namespace
}  // namespace tidemill
