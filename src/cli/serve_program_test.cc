// `tidemill serve` as a person starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(ServeProgram, WrongWordsAreNamed) {
  const auto message = [](const std::string& words) {
    const ProcessOutput result = RunTidemill("serve " + words);
    EXPECT_EQ(result.exit_code, 2) << words << "\n" << result.output;
    return result.output;
  };
  EXPECT_THAT(message(""), HasSubstr("DIR is missing"));
  EXPECT_THAT(message(model_ + " --host 0.0.0.0"), HasSubstr("requires API keys"));
  EXPECT_THAT(message("--new-key 'a b'"), HasSubstr("a tenant's name must be"));
}

}  // namespace
}  // namespace tidemill
