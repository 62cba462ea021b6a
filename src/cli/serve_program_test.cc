// `tidemill serve` as a person starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/golden_models.h"
#include "testing/http_client.h"
#include "testing/test_folders.h"
#include "tests/program.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

class ServeProgram : public testing::Test {
 protected:
  // Starts it and waits for its address; the port.
  uint16_t Serve(const std::string& words) {
    std::filesystem::remove(folder_ / "out");  // of an earlier one
    program_.emplace("serve " + words + " --port 0",
                     BackgroundProgram::Files{folder_ / "log", folder_ / "out"});
    std::string url;
    EXPECT_TRUE(Eventually([&] {
      std::ifstream out(folder_ / "out");
      return static_cast<bool>(std::getline(out, url));
    })) << TextOf(folder_ / "log");
    const size_t colon = url.rfind(':');
    return colon == std::string::npos ? uint16_t{0}
                                      : static_cast<uint16_t>(std::stoi(url.substr(colon + 1)));
  }
  static std::string Post(uint16_t port, const std::string& path, const nlohmann::json& body,
                          const std::string& headers = "") {
    const std::string text = body.dump();
    RawClient client(port);
    client.Send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
                "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
    return client.ReadToEnd();
  }

  TemporaryDirectory folder_;
  const std::string model_ = GoldenRoot(SourceDir()) + "/qwen2-tiny";
  std::optional<BackgroundProgram> program_;
};

TEST_F(ServeProgram, WhatItDrawsIsWhatTheModelScores) {
  const uint16_t port = Serve(model_);
  ASSERT_NE(port, 0);
  RawClient health(port);
  health.Get("/healthz");
  EXPECT_EQ(StatusOf(health.ReadAnswer()), 200);
  const auto answer = nlohmann::json::parse(BodyOf(Post(port, "/v1/completions",
                                                        {{"model", "any"},
                                                         {"prompt", {5, 6, 7}},
                                                         {"max_tokens", 6},
                                                         {"seed", 3},
                                                         {"temperature", 1.5},
                                                         {"return_token_ids", true}})));
  const auto& choice = answer["choices"][0];
  std::string ids = "5,6,7";
  for (const auto& id : choice["token_ids"]) ids += "," + std::to_string(id.get<int>());
  const ProcessOutput scored =
      RunTidemill("model score --json --model " + model_ + " --ids " + ids, "2>/dev/null");
  const auto logprobs = nlohmann::json::parse(scored.output)["logprobs"];
  ASSERT_GE(choice["token_logprobs"].size(), 1u);
  for (size_t i = 0; i < choice["token_logprobs"].size(); ++i) {
    EXPECT_NEAR(choice["token_logprobs"][i].get<double>(), logprobs[2 + i].get<double>(), 1e-4);
  }
  // Random weights talk garbage, and nothing breaks.
  const std::string chat = Post(port, "/v1/messages",
                                {{"model", "any"},
                                 {"max_tokens", 40},
                                 {"messages", {{{"role", "user"}, {"content", "hi"}}}}});
  EXPECT_EQ(StatusOf(chat), 200) << chat;
  EXPECT_EQ(program_->Stop(SIGTERM), 0);
}

TEST_F(ServeProgram, AKeyThatWasMadeIsAskedFor) {
  const ProcessOutput made =
      RunTidemill("serve --new-key lab --concurrency 2 2>" + (folder_ / "told") + " >" +
                  (folder_ / "keys") + "; cat " + (folder_ / "told"));
  const size_t at = made.output.find("tmk-");
  ASSERT_NE(at, std::string::npos) << made.output;
  const std::string key = made.output.substr(at, made.output.find('\n', at) - at);
  const uint16_t port = Serve(model_ + " --keys " + (folder_ / "keys") + " --host 0.0.0.0");
  const nlohmann::json body = {{"model", "m"}, {"prompt", {5}}, {"max_tokens", 1}};
  EXPECT_EQ(StatusOf(Post(port, "/v1/completions", body)), 401);
  EXPECT_EQ(StatusOf(Post(port, "/v1/completions", body, "Authorization: Bearer " + key + "\r\n")),
            200);
}

// What a client saw the end of is in the run, also after the server was killed.
TEST_F(ServeProgram, SessionsAreRecordedAndGoOnAfterAKill) {
  const std::string record = model_ + " --run talk --folder " + folder_.path();
  nlohmann::json messages = {{{"role", "user"}, {"content", "hi"}}};
  std::vector<int> before;
  for (int turn = 0; turn < 3; ++turn) {
    const uint16_t port = Serve(record);
    ASSERT_NE(port, 0);
    const auto answer = nlohmann::json::parse(BodyOf(Post(
        port, "/v1/chat/completions",
        {{"model", "any"}, {"max_tokens", 12}, {"messages", messages}, {"return_token_ids", true}},
        "x-session-id: one\r\n")));
    ASSERT_TRUE(answer.contains("choices")) << answer.dump();
    std::vector<int> ids = answer["prompt_token_ids"].get<std::vector<int>>();
    ASSERT_GE(ids.size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), ids.begin()));
    for (const auto& id : answer["choices"][0]["token_ids"]) ids.push_back(id.get<int>());
    before = ids;
    messages.push_back(answer["choices"][0]["message"]);
    messages.push_back({{"role", "user"}, {"content", "go on"}});
    program_->Stop(SIGKILL);
    program_.reset();
  }
  const ProcessOutput listed =
      RunTidemill("live sessions talk --json --folder " + folder_.path(), "2>/dev/null");
  const auto sessions = nlohmann::json::parse(listed.output)["sessions"];
  ASSERT_EQ(sessions.size(), 1u) << listed.output;
  EXPECT_EQ(sessions[0]["name"], "one");
  EXPECT_EQ(sessions[0]["questions"], 3);
  EXPECT_EQ(sessions[0]["tokens"]["trained"], sessions[0]["sampled"]);
  const ProcessOutput status = RunTidemill("live status talk --folder " + folder_.path());
  EXPECT_EQ(status.exit_code, 0) << status.output;
  EXPECT_THAT(status.output, HasSubstr("1 open, 0 closed"));
}

// On the run that is served and on its files afterwards.
TEST_F(ServeProgram, SessionsAreDeletedWithProof) {
  const std::string runs = " --folder " + folder_.path();
  const uint16_t port = Serve(model_ + " --run talk" + runs);
  ASSERT_NE(port, 0);
  const auto say = [&](const std::string& session) {
    return StatusOf(Post(port, "/v1/chat/completions",
                         {{"model", "any"},
                          {"max_tokens", 8},
                          {"messages", {{{"role", "user"}, {"content", "I am " + session}}}}},
                         "x-session-id: " + session + "\r\n"));
  };
  for (const std::string session :
       {"first-session-of-three", "second-of-three", "third-of-three"}) {
    EXPECT_EQ(say(session), 200);
  }
  const auto deleted = [&](const std::string& what) {
    const ProcessOutput done = RunTidemill("live delete talk --json " + what + runs, "2>/dev/null");
    EXPECT_EQ(done.exit_code, 0) << done.output;
    return nlohmann::json::parse(done.output, nullptr, false);
  };
  const auto running = deleted("--session 1");
  EXPECT_EQ(running["deleted"]["turns"], 1) << running.dump();
  EXPECT_TRUE(running["searched"]["found"].empty()) << running.dump();
  EXPECT_EQ(say("fourth-of-three"), 200) << "it serves on";
  EXPECT_EQ(program_->Stop(SIGTERM), 0);
  const auto stopped = deleted("--tenant default");
  EXPECT_EQ(stopped["sessions"].size(), 3u) << stopped.dump();
  EXPECT_TRUE(stopped["used_by"].empty());
  const ProcessOutput none = RunTidemill("live delete talk --tenant default" + runs);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("no session of tenant"));
  EXPECT_EQ(RunTidemill("live delete talk" + runs).exit_code, 2);
}

// As a client of another server finds it: one key, a name, a document that satisfies its schema.
TEST_F(ServeProgram, AnswersAreHeldToASchema) {
  const uint16_t port =
      Serve(model_ + " --api-key secret --served-model-name small --max-model-len 512");
  ASSERT_NE(port, 0);
  const nlohmann::json schema = {
      {"type", "object"},
      {"properties",
       {{"colour", {{"enum", {"red", "blue"}}}}, {"count", {{"type", "integer"}, {"maximum", 9}}}}},
      {"required", {"colour", "count"}},
      {"additionalProperties", false}};
  const nlohmann::json body = {
      {"model", "small"},
      {"max_tokens", 200},
      {"messages", {{{"role", "user"}, {"content", "hi"}}}},
      {"response_format",
       {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", schema}}}}}};
  EXPECT_EQ(StatusOf(Post(port, "/v1/chat/completions", body)), 401);
  for (int seed = 0; seed < 8; ++seed) {
    nlohmann::json seeded = body;
    seeded["seed"] = seed;
    const std::string answer =
        Post(port, "/v1/chat/completions", seeded, "Authorization: Bearer secret\r\n");
    ASSERT_EQ(StatusOf(answer), 200) << answer;
    const auto choice = nlohmann::json::parse(BodyOf(answer))["choices"][0];
    const std::string text = choice["message"]["content"];
    const auto value = nlohmann::json::parse(text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << text;
    EXPECT_TRUE(value["colour"] == "red" || value["colour"] == "blue") << text;
    EXPECT_LE(value["count"].get<int64_t>(), 9);
    EXPECT_EQ(value.size(), 2u);
  }
  EXPECT_THAT(TextOf(folder_ / "log"), HasSubstr("model       small"));
  EXPECT_THAT(TextOf(folder_ / "log"), HasSubstr("context     512 tokens"));
}

// lm-eval reads the log-probabilities of a prompt from an echo.
TEST_F(ServeProgram, AnEchoHasTheLogProbabilitiesThatTheModelGivesThePrompt) {
  const uint16_t port = Serve(model_);
  ASSERT_NE(port, 0);
  const auto answer = nlohmann::json::parse(BodyOf(Post(port, "/v1/completions",
                                                        {{"model", "m"},
                                                         {"prompt", {5, 6, 7, 8}},
                                                         {"max_tokens", 1},
                                                         {"logprobs", 1},
                                                         {"echo", true}})));
  const auto told = answer["choices"][0]["logprobs"]["token_logprobs"];
  const ProcessOutput scored =
      RunTidemill("model score --json --model " + model_ + " --ids 5,6,7,8", "2>/dev/null");
  const auto logprobs = nlohmann::json::parse(scored.output)["logprobs"];
  ASSERT_EQ(told.size(), 5u) << answer.dump();
  EXPECT_TRUE(told[0].is_null());
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_NEAR(told[i].get<double>(), logprobs[i - 1].get<double>(), 1e-4);
  }
}

TEST_F(ServeProgram, EmbeddingsHaveLengthOneAndAreTheSameInEitherEncoding) {
  const uint16_t port = Serve(model_);
  ASSERT_NE(port, 0);
  nlohmann::json body = {{"model", "any"}, {"input", {{5, 6, 7}, {8}}}};
  const auto answer = nlohmann::json::parse(BodyOf(Post(port, "/v1/embeddings", body)));
  ASSERT_EQ(answer["data"].size(), 2u) << answer.dump();
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 4);
  for (const auto& one : answer["data"]) {
    double square = 0;
    for (const auto& value : one["embedding"]) square += std::pow(value.get<double>(), 2);
    EXPECT_NEAR(square, 1, 1e-4);
  }
  body["encoding_format"] = "base64";
  const auto packed = nlohmann::json::parse(BodyOf(Post(port, "/v1/embeddings", body)));
  const size_t bytes = 4 * answer["data"][0]["embedding"].size();
  EXPECT_EQ(packed["data"][0]["embedding"].get<std::string>().size(), (bytes + 2) / 3 * 4);
  body["dimensions"] = 4;
  EXPECT_EQ(StatusOf(Post(port, "/v1/embeddings", body)), 400);
}

TEST_F(ServeProgram, AConversationInTheTerminal) {
  const std::string saved = folder_ / "talk.json";
  std::ofstream(folder_ / "lines") << "hello\n/tokens\n/save " << saved << "\n/wrong\n";
  const ProcessOutput talk =
      RunTidemill("chat " + model_ + " --max-tokens 5 <" + (folder_ / "lines"));
  EXPECT_EQ(talk.exit_code, 0) << talk.output;
  EXPECT_THAT(talk.output, HasSubstr(" + 5 tokens]"));
  EXPECT_THAT(talk.output, HasSubstr("unknown: /wrong"));
  std::ifstream file(saved);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(json.is_object()) << talk.output;
  ASSERT_EQ(json["messages"].size(), 2u);
  EXPECT_EQ(json["messages"][0]["content"], "hello");
  EXPECT_EQ(json["messages"][1]["role"], "assistant");
}

TEST_F(ServeProgram, WrongWordsAreNamed) {
  const auto message = [](const std::string& words) {
    const ProcessOutput result = RunTidemill("serve " + words);
    EXPECT_EQ(result.exit_code, 2) << words << "\n" << result.output;
    return result.output;
  };
  EXPECT_THAT(message(""), HasSubstr("MODEL is missing"));
  EXPECT_THAT(message(model_ + " --host 0.0.0.0"), HasSubstr("requires API keys"));
  EXPECT_THAT(message("--new-key 'a b'"), HasSubstr("a tenant's name must be"));
  EXPECT_THAT(message(folder_ / "nothing"), HasSubstr("no such directory"));
}

}  // namespace
}  // namespace tidemill
