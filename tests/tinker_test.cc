// `tidemill tinker` as clients meet it: order, repeats, kills, two clients, what is refused.
// Requests have the forms of clients up to 0.24; the public client itself is tried by
// scripts/interop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "testing/golden_models.h"
#include "testing/http_client.h"
#include "testing/test_folders.h"
#include "tests/program.h"

namespace tidemill {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct TinkerAnswer {
  int status = 0;
  json body;
};

// The server on a folder that outlives it.
class TinkerProgram {
 public:
  explicit TinkerProgram(std::string words = "")
      : words_("tinker demo/demo=" + GoldenRoot(SourceDir()) + "/qwen2-tiny --port 0 --folder " +
               (folder_ / "kept") + " " + std::move(words)) {
    Start();
  }

  void Start() {
    std::filesystem::remove(folder_ / "out");
    program_.emplace(words_, BackgroundProgram::Files{folder_ / "log", folder_ / "out"});
    std::string url;
    EXPECT_TRUE(Eventually([&] {
      std::ifstream out(folder_ / "out");
      return static_cast<bool>(std::getline(out, url)) && url.back() == '/';
    })) << TextOf(folder_ / "log");
    const size_t colon = url.rfind(':');
    port_ =
        colon == std::string::npos ? 0 : static_cast<uint16_t>(std::stoi(url.substr(colon + 1)));
  }
  void Kill() { program_->Stop(SIGKILL); }

  TinkerAnswer Ask(const std::string& method, const std::string& path, const json& body,
                   const std::string& headers = "") const {
    const std::string text = body.is_null() ? "" : body.dump();
    RawClient client(port_);
    client.Send(method + " /api/v1/" + path +
                " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
                "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
    const std::string answer = client.ReadToEnd();
    return {StatusOf(answer), json::parse(BodyOf(answer), nullptr, false)};
  }
  json Post(const std::string& path, const json& body, const std::string& headers = "") const {
    const TinkerAnswer answer = Ask("POST", path, body, headers);
    EXPECT_EQ(answer.status, 200) << path << " " << answer.body.dump();
    return answer.body;
  }
  // The result of a promise, however long it takes.
  json Await(const json& promised) const {
    while (true) {
      const TinkerAnswer answer =
          Ask("POST", "retrieve_future", {{"request_id", promised.at("request_id")}});
      if (answer.status == 408) continue;
      EXPECT_EQ(answer.status, 200) << answer.body.dump();
      return answer.body;
    }
  }

  const TemporaryDirectory folder_;

 private:
  std::string words_;
  std::optional<BackgroundProgram> program_;
  uint16_t port_ = 0;
};

json Tensor(const json& data, const char* dtype) {
  return {{"data", data}, {"dtype", dtype}, {"shape", {data.size()}}};
}

json TrainBody(const std::string& model, int seq, const std::vector<int>& ids,
               const std::string& loss = "cross_entropy") {
  json targets = json::array(), weights = json::array();
  for (size_t i = 0; i < ids.size(); ++i) {
    targets.push_back(ids[(i + 1) % ids.size()]);
    weights.push_back(0.25 * static_cast<double>(i % 3) - 0.125);
  }
  json inputs = {{"target_tokens", Tensor(targets, "int64")}};
  if (loss == "cross_entropy") {
    inputs["weights"] = Tensor(weights, "float32");
  } else {
    inputs["advantages"] = Tensor(weights, "float32");
    inputs["logprobs"] = Tensor(json(std::vector<double>(ids.size(), -5.5)), "float32");
  }
  return {{"model_id", model},
          {"seq_id", seq},
          {"forward_backward_input",
           {{"data",
             {{{"model_input", {{"chunks", {{{"type", "encoded_text"}, {"tokens", ids}}}}}},
               {"loss_fn_inputs", inputs}}}},
            {"loss_fn", loss}}}};
}

json StepBody(const std::string& model, int seq) {
  return {{"model_id", model}, {"seq_id", seq}, {"adam_params", {{"learning_rate", 0.01}}}};
}

std::string NewSession(const TinkerProgram& server, const std::string& headers = "") {
  return server
      .Post("create_session", {{"tags", json::array()}, {"sdk_version", "0.24.1"}}, headers)
      .at("session_id");
}

json ModelBody(const std::string& session, int number) {
  return {{"session_id", session},
          {"model_seq_id", number},
          {"base_model", "demo/demo"},
          {"lora_config", {{"rank", 4}, {"seed", 5}}}};
}

std::string NewModel(const TinkerProgram& server, const std::string& session, int number = 0) {
  return server.Await(server.Post("create_model", ModelBody(session, number))).at("model_id");
}

json SampleBody(const std::string& sampler, int seq, const std::vector<int>& prompt) {
  return {{"sampling_session_id", sampler},
          {"seq_id", seq},
          {"num_samples", 1},
          {"prompt", {{"chunks", {{{"type", "encoded_text"}, {"tokens", prompt}}}}}},
          {"sampling_params", {{"max_tokens", 4}, {"seed", 9}, {"stop", json::array()}}},
          {"prompt_logprobs", true}};
}

// What a model thinks of a text: by weights saved for a sampler.
json LogprobsOf(const TinkerProgram& server, const std::string& session, const std::string& model,
                int seq) {
  const json saved =
      server.Await(server.Post("save_weights_for_sampler", {{"model_id", model},
                                                            {"seq_id", seq},
                                                            {"sampling_session_seq_id", 1000 + seq},
                                                            {"kind", "snapshot"}}));
  EXPECT_EQ(saved.value("sampling_session_id", ""),
            session + ":sample:" + std::to_string(1000 + seq));
  return server
      .Await(
          server.Post("asample", SampleBody(saved.at("sampling_session_id"), 0, {5, 6, 7, 8, 9})))
      .at("prompt_logprobs");
}

// Two batches of two chunks with a step each; `between` is called between any two calls.
json TrainAndScore(const TinkerProgram& server, const std::function<void()>& between) {
  const std::string session = NewSession(server);
  between();
  const std::string model = NewModel(server, session);
  int seq = 0;
  for (int batch = 0; batch < 2; ++batch) {
    std::vector<json> promises;
    for (const int first : {3 + batch, 40 + batch}) {
      between();
      promises.push_back(
          server.Post("forward_backward", TrainBody(model, ++seq, {first, 8, 9, 10 + first})));
    }
    between();
    promises.push_back(server.Post("optim_step", StepBody(model, ++seq)));
    for (const json& promise : promises) {
      between();
      EXPECT_FALSE(server.Await(promise).contains("error"));
    }
  }
  between();
  const json checkpoint = server.Await(
      server.Post("save_weights", {{"model_id", model}, {"seq_id", ++seq}, {"path", "end"}}));
  EXPECT_EQ(checkpoint.value("path", ""), "tinker://" + model + "/weights/end");
  between();
  return LogprobsOf(server, session, model, ++seq);
}

TEST(TinkerProgram, ChunksThatComeInAnotherOrderAndTwiceAreTrainedOnceAndInOrder) {
  const TinkerProgram server;
  const json wanted = TrainAndScore(server, [] {});
  const std::string session = NewSession(server);
  const json promise = server.Post("create_model", ModelBody(session, 0));
  EXPECT_EQ(server.Post("create_model", ModelBody(session, 0)), promise);
  const std::string model = server.Await(promise).at("model_id");
  std::map<int, json> promises;
  for (const int seq : {2, 3, 1, 6, 5, 4}) {
    const int batch = seq > 3 ? 1 : 0, first = (seq % 3 == 1 ? 3 : 40) + batch;
    const bool step = seq % 3 == 0;
    const json body =
        step ? StepBody(model, seq) : TrainBody(model, seq, {first, 8, 9, 10 + first});
    const char* path = step ? "optim_step" : "forward_backward";
    promises[seq] = server.Post(path, body);
    EXPECT_EQ(server.Post(path, body), promises[seq]);
  }
  for (const auto& [seq, one] : promises) {
    const json result = server.Await(one);
    EXPECT_EQ(server.Await(one), result);  // it may be asked again
    EXPECT_EQ(result.contains("loss_fn_outputs"), seq % 3 != 0) << result.dump();
  }
  EXPECT_EQ(LogprobsOf(server, session, model, 7), wanted);
}

TEST(TinkerProgram, KilledBetweenAnyTwoCallsItGoesOnAsIfNothingHadHappened) {
  TinkerProgram server;
  const json wanted = TrainAndScore(server, [] {});
  const json got = TrainAndScore(server, [&] {
    server.Kill();
    server.Start();
  });
  ASSERT_EQ(got.size(), 5u);
  EXPECT_EQ(got, wanted);
}

TEST(TinkerProgram, TwoClientsAtOnceLearnAsIfEachWereAlone) {
  const TinkerProgram server;
  const json wanted = TrainAndScore(server, [] {});
  json got[2];
  std::thread other([&] { got[1] = TrainAndScore(server, [] {}); });
  got[0] = TrainAndScore(server, [] {});
  other.join();
  EXPECT_EQ(got[0], wanted);
  EXPECT_EQ(got[1], wanted);
}

TEST(TinkerProgram, ACheckpointMakesAModelThatGoesOnAndIsListedAndDeleted) {
  const TinkerProgram server;
  const std::string session = NewSession(server), model = NewModel(server, session);
  server.Await(server.Post("forward_backward", TrainBody(model, 1, {3, 8, 9}, "ppo")));
  server.Await(server.Post("optim_step", StepBody(model, 2)));
  const std::string path =
      server
          .Await(
              server.Post("save_weights",
                          {{"model_id", model}, {"seq_id", 3}, {"path", "a"}, {"ttl_seconds", 60}}))
          .at("path");
  const json made = server.Await(server.Post(
      "load_weights",
      {{"session_id", session}, {"model_seq_id", 1}, {"path", path}, {"optimizer", true}}));
  EXPECT_EQ(made.value("model_id", ""), session + ":train:1") << made.dump();
  for (const std::string& one : {model, session + ":train:1"}) {
    const int seq = one == model ? 4 : 1;
    server.Await(server.Post("forward_backward", TrainBody(one, seq, {4, 8, 9, 11})));
    server.Await(server.Post("optim_step", StepBody(one, seq + 1)));
  }
  EXPECT_EQ(LogprobsOf(server, session, model, 6),
            LogprobsOf(server, session, made.at("model_id"), 3));
  const json run = server.Ask("GET", "training_runs/" + model, {}).body;
  EXPECT_EQ(run.value("/last_checkpoint/tinker_path"_json_pointer, ""), path) << run.dump();
  EXPECT_TRUE(run.at("last_checkpoint").contains("expires_at"));
  EXPECT_EQ(server.Post("weights_info", {{"tinker_path", path}}).at("lora_rank"), 4);
  const std::string checkpoint = "training_runs/" + model + "/checkpoints/weights/a";
  EXPECT_EQ(server.Ask("DELETE", checkpoint, {}).status, 200);
  EXPECT_EQ(server.Ask("DELETE", checkpoint, {}).status, 404);
  EXPECT_EQ(server.Ask("GET", "checkpoints", {}).body.at("checkpoints").size(), 0u);
}

TEST(TinkerProgram, WhatIsNotSupportedIsRefusedByNameAndHoldsNobodyUp) {
  const TinkerProgram server;
  const std::string session = NewSession(server), model = NewModel(server, session);
  const auto refused = [&](const std::string& path, const json& body, const std::string& what) {
    const TinkerAnswer answer = server.Ask("POST", path, body);
    EXPECT_EQ(answer.status, 400) << answer.body.dump();
    EXPECT_THAT(answer.body.value("detail", ""), HasSubstr(what));
  };
  refused("forward_backward", TrainBody(model, 1, {3, 4}, "stable_reinforce"), "stable_reinforce");
  // The step of a batch that lacks a part changes nothing and says why; the next one is good again.
  const json half = server.Await(server.Post("optim_step", StepBody(model, 2)));
  EXPECT_THAT(half.value("error", ""), HasSubstr("stable_reinforce"));
  EXPECT_EQ(half.value("category", ""), "user");
  EXPECT_TRUE(server.Await(server.Post("forward_backward", TrainBody(model, 3, {3, 4, 5})))
                  .contains("loss_fn_outputs"));
  EXPECT_TRUE(server.Await(server.Post("optim_step", StepBody(model, 4))).contains("metrics"));
  refused("forward_backward", TrainBody(model, 5, {3, 1000000}), "1000000");
  json config = TrainBody(model, 6, {3, 4}, "ppo");
  config["forward_backward_input"]["loss_fn_config"] = {{"clip_ratio", 0.1}};
  refused("forward_backward", config, "clip_ratio");
  json other = ModelBody(session, 7);
  other["base_model"] = "someone/else";
  refused("create_model", other, "someone/else");
  other = ModelBody(session, 7);
  other["optimizer_config"] = {{"type", "dimuon"}};
  refused("create_model", other, "dimuon");
  const TinkerAnswer unknown = server.Ask("POST", "retrieve_futures", json::object());
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body.value("detail", ""), HasSubstr("retrieve_futures"));
  EXPECT_EQ(server.Ask("POST", "retrieve_future", {{"request_id", "s.0.1"}}).status, 410);
}

TEST(TinkerProgram, AKeySeesNothingOfAnotherKeys) {
  const TemporaryDirectory folder;
  std::string keys[2];
  for (const int i : {0, 1}) {
    const ProcessOutput made = RunTidemill("tinker --new-key t" + std::to_string(i),
                                           "2>" + (folder / "key") + " >>" + (folder / "keys"));
    ASSERT_EQ(made.exit_code, 0);
    const std::string text = TextOf(folder / "key");
    const size_t at = text.find("tml-");
    ASSERT_NE(at, std::string::npos) << text;
    keys[i] = "X-API-Key: " + text.substr(at, text.find('\n', at) - at) + "\r\n";
  }
  const TinkerProgram server("--keys " + (folder / "keys"));
  EXPECT_EQ(server.Ask("POST", "create_session", json::object()).status, 401);
  const std::string session = NewSession(server, keys[0]);
  const json promise = server.Post("create_model", ModelBody(session, 0), keys[0]);
  EXPECT_EQ(server.Ask("POST", "create_model", ModelBody(session, 1), keys[1]).status, 404);
  EXPECT_EQ(
      server.Ask("POST", "retrieve_future", {{"request_id", promise.at("request_id")}}, keys[1])
          .status,
      410);
  const std::string run = "training_runs/" + promise.at("model_id").get<std::string>();
  EXPECT_EQ(server.Ask("GET", run, {}, keys[0]).status, 200);
  EXPECT_EQ(server.Ask("GET", run, {}, keys[1]).status, 404);
}

TEST(TinkerProgram, AnInflightSamplerFollowsItsModel) {
  const TinkerProgram server;
  const std::string session = NewSession(server), model = NewModel(server, session);
  const auto save = [&](int seq, int number) {
    return server
        .Await(server.Post("save_weights_for_sampler", {{"model_id", model},
                                                        {"seq_id", seq},
                                                        {"sampling_session_seq_id", number},
                                                        {"kind", "inflight"}}))
        .at("sampling_session_id")
        .get<std::string>();
  };
  const auto scores = [&](const std::string& sampler, int seq) {
    return server.Await(server.Post("asample", SampleBody(sampler, seq, {5, 6, 7, 8})))
        .at("prompt_logprobs");
  };
  const std::string first = save(1, 0);
  const json before = scores(first, 0);
  server.Await(server.Post("forward_backward", TrainBody(model, 2, {5, 6, 7, 8})));
  server.Await(server.Post("optim_step", StepBody(model, 3)));
  EXPECT_EQ(scores(first, 1), before);
  const std::string second = save(4, 1);
  const json after = scores(second, 0);
  EXPECT_NE(after, before);
  EXPECT_EQ(scores(first, 2), after);
}

}  // namespace
}  // namespace tidemill
