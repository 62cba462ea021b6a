// Drivers without sockets: what an environment and the model say goes in, what is done next comes
// out.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "environments/environment_driver.h"

namespace tidemill {
namespace {

using Json = EnvironmentJson;

class DriverTest : public testing::Test {
 protected:
  void Open(std::string_view standard, const Json& row, std::string mode = "",
            uint32_t max_turns = 3) {
    task_.set_id("t");
    task_.set_prompt("Play well.");
    task_.mutable_environment()->set_row_json(row.dump());
    driver_ = StandardNamed(standard)->make({.task = task_,
                                             .server = ParseHttpUrl("http://env:7").value(),
                                             .name = "game",
                                             .mode = std::move(mode),
                                             .max_turns = max_turns,
                                             .seed = 7});
  }

  static EnvironmentAnswer Answer(const Json& body, int status = 200) {
    return {.status = status, .fields = {}, .body = body.dump()};
  }
  static EnvironmentAnswer Chat(const Json& message) {
    return Answer({{"choices", Json::array({{{"message", message}}})}});
  }
  // The next step, which must be a T.
  template <typename T>
  static T As(DriverStep step) {
    T* it = std::get_if<T>(&step);
    if (it == nullptr) {
      const auto* fail = std::get_if<FailEpisode>(&step);
      ADD_FAILURE() << "another step" << (fail != nullptr ? ": " + fail->why : "");
      return T();
    }
    return std::move(*it);
  }
  template <typename T>
  static T As(std::optional<DriverStep> step) {
    EXPECT_TRUE(step.has_value());
    return step ? As<T>(std::move(*step)) : T();
  }
  static double Paid(const EndEpisode& end) {
    EXPECT_EQ(end.reward.parts_size(), 1);
    EXPECT_EQ(end.reward.environment(), "game");
    return end.reward.parts_size() == 0 ? -1 : end.reward.parts(0).value();
  }

  v1::Task task_;
  std::unique_ptr<EpisodeDriver> driver_;
};

class NemoGym : public DriverTest {
 protected:
  static Json Row() {
    return {{"responses_create_params",
             {{"input", Json::array({{{"role", "user"}, {"content", "weather?"}}})},
              {"tools", Json::array({{{"type", "function"}, {"name", "get_weather"}}})}}},
            {"expected", "cold"}};
  }
  static Json Call(const std::string& name, const std::string& arguments) {
    return {{"type", "function_call"}, {"call_id", "c1"}, {"name", name}, {"arguments", arguments}};
  }
  static EnvironmentAnswer Response(const Json& output) { return Answer({{"output", output}}); }
  static Json Message(const std::string& text) {
    return {{"type", "message"}, {"role", "assistant"}, {"content", text}};
  }
};

TEST_F(NemoGym, ToolsAreCalledWithTheSessionsCookieAndTheVerifierSeesEveryTurn) {
  Open("nemo-gym", Row());
  const auto seed = As<CallEnvironment>(driver_->Begin());
  EXPECT_EQ(seed.ask.target, "/seed_session");
  EXPECT_EQ(Json::parse(seed.ask.body), Row());
  EnvironmentAnswer seeded = Answer(Json::object());
  seeded.fields = {{"set-cookie", "session=abc; Path=/; HttpOnly"}};
  const auto ask = As<AskModel>(driver_->OnAnswer(seeded));
  EXPECT_EQ(ask.path, "/v1/responses");
  EXPECT_EQ(ask.body["tools"], Row()["responses_create_params"]["tools"]);
  const Json call = Call("get_weather", R"({"city": "Oslo"})");
  const auto tool = As<CallEnvironment>(driver_->OnModel(Response(Json::array({call}))));
  EXPECT_EQ(tool.ask.target, "/get_weather");
  EXPECT_EQ(Json::parse(tool.ask.body), Json({{"city", "Oslo"}}));
  EXPECT_EQ(tool.ask.headers.back().second, "session=abc");
  const auto again = As<AskModel>(driver_->OnAnswer(Answer("cold")));
  ASSERT_EQ(again.body["input"].size(), 3u);
  EXPECT_EQ(again.body["input"][2]["output"], "\"cold\"");
  const auto verify =
      As<CallEnvironment>(driver_->OnModel(Response(Json::array({Message("It is cold.")}))));
  EXPECT_EQ(verify.ask.target, "/verify");
  const Json shown = Json::parse(verify.ask.body);
  EXPECT_EQ(shown["expected"], "cold");
  EXPECT_EQ(shown["response"]["output"].size(), 3u);
  EXPECT_EQ(Paid(As<EndEpisode>(driver_->OnAnswer(Answer({{"reward", 0.75}})))), 0.75);
  EXPECT_EQ(driver_->TakeBadActions(), 0u);
}

TEST_F(NemoGym, TheAgentsMistakesAreToldToItAndTheServersAreFailures) {
  Open("nemo-gym", Row());
  (void)driver_->Begin();
  (void)driver_->OnAnswer(Answer(Json::object()));
  auto ask = As<AskModel>(driver_->OnModel(Response(Json::array({Call("get_weather", "{")}))));
  EXPECT_EQ(ask.body["input"].back()["output"], "The arguments are no JSON object.");
  ask = As<AskModel>(driver_->OnModel(Response(Json::array({Call("../verify", "{}")}))));
  EXPECT_EQ(ask.body["input"].back()["output"], "There is no tool \"../verify\".");
  EXPECT_EQ(driver_->TakeBadActions(), 2u);
  (void)driver_->OnModel(Response(Json::array({Call("get_weather", "{}")})));
  EXPECT_EQ(As<FailEpisode>(driver_->OnAnswer(Answer("down", 500))).failure, Failure::kEnvironment);
}

TEST_F(NemoGym, MaskedSamplesAndVerifiersWithoutARewardAreNeverZero) {
  for (const bool masked : {true, false}) {
    Open("nemo-gym", Row());
    (void)driver_->Begin();
    (void)driver_->OnAnswer(Answer(Json::object()));
    (void)driver_->OnModel(Response(Json::array({Message("x")})));
    const Json verdict = masked ? Json({{"reward", 0.0}, {"mask_sample", true}})
                                : Json({{"detail", "the judge is away"}});
    const auto failed = As<FailEpisode>(driver_->OnAnswer(Answer(verdict)));
    EXPECT_EQ(failed.failure, masked ? Failure::kMasked : Failure::kVerifier);
  }
}

TEST_F(NemoGym, TheGymnasiumKindStepsUntilItIsOver) {
  Open("nemo-gym", Row(), "gymnasium");
  EXPECT_EQ(As<CallEnvironment>(driver_->Begin()).ask.target, "/reset");
  const auto first = As<AskModel>(driver_->OnAnswer(Answer({{"observation", "your hand: 12"}})));
  EXPECT_EQ(first.body["input"].back()["content"], "your hand: 12");
  const auto step = As<CallEnvironment>(driver_->OnModel(Response(Json::array({Message("hit")}))));
  EXPECT_EQ(step.ask.target, "/step");
  EXPECT_EQ(Json::parse(step.ask.body)["response"]["output"][0]["content"], "hit");
  const auto next = As<AskModel>(
      driver_->OnAnswer(Answer({{"observation", "21"}, {"reward", 0.5}, {"terminated", false}})));
  EXPECT_EQ(next.body["input"].back()["content"], "21");
  (void)driver_->OnModel(Response(Json::array({Message("stand")})));
  const auto end = As<EndEpisode>(
      driver_->OnAnswer(Answer({{"reward", 1.0}, {"terminated", true}, {"truncated", false}})));
  EXPECT_EQ(Paid(end), 1.5);
}

TEST_F(NemoGym, AnAgentServerLeadsTheEpisodeItself) {
  Open("nemo-gym", Row(), "agent");
  EXPECT_TRUE(driver_->AsksModelItself());
  const auto run = As<CallEnvironment>(driver_->Begin());
  EXPECT_EQ(run.ask.target, "/run");
  EXPECT_TRUE(run.whole_episode);
  EXPECT_EQ(Json::parse(run.ask.body)["expected"], "cold");
  EXPECT_EQ(Paid(As<EndEpisode>(driver_->OnAnswer(Answer({{"reward", 0.5}})))), 0.5);
  Open("nemo-gym", Row(), "agent");
  (void)driver_->Begin();
  EXPECT_EQ(As<FailEpisode>(driver_->OnAnswer(Answer("no model", 500))).failure,
            Failure::kEnvironment);
}

// Sec-WebSocket-Accept, as a server makes it.
std::string ServerAccept(const std::string& key) {
  const std::string text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  unsigned char digest[EVP_MAX_MD_SIZE], base64[64];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr);
  const int length = EVP_EncodeBlock(base64, digest, static_cast<int>(size));
  return std::string(reinterpret_cast<const char*>(base64), static_cast<size_t>(length));
}

class OpenEnv : public DriverTest {
 protected:
  // Takes the handshake's answer from the request that was written.
  void Shake(const Json& action) {
    As<CallEnvironment>(driver_->Begin());
    As<Await>(driver_->OnAnswer(Answer({{"action", action}})));
    const std::string request = driver_->TakeOutput();
    EXPECT_TRUE(request.starts_with("GET /ws HTTP/1.1\r\nHost: env:7\r\n")) << request;
    EXPECT_EQ(request.find("\r\n\r\n") + 4, request.size()) << "nothing before the handshake";
    EXPECT_FALSE(driver_->OnBytes("HTTP/1.1 101 Switching Protocols\r\n").has_value());
    const std::string key = request.substr(request.find("Key: ") + 5, 24);
    EXPECT_FALSE(driver_->OnBytes("Sec-WebSocket-Accept: " + ServerAccept(key) + "\r\n\r\n"));
  }
  // The message in the client's frame that is written.
  Json Sent() {
    const std::string frame = driver_->TakeOutput();
    EXPECT_GE(frame.size(), 6u);
    if (frame.size() < 6) return nullptr;
    const size_t head = (frame[1] & 0x7F) <= 125 ? 2 : 4;
    std::string text;
    for (size_t i = 0; head + 4 + i < frame.size(); ++i) {
      text.push_back(static_cast<char>(frame[head + 4 + i] ^ frame[head + i % 4]));
    }
    return Json::parse(text, nullptr, false);
  }
  std::optional<DriverStep> Hear(const Json& message) {
    const std::string text = message.dump();
    std::string frame = "\x81";
    frame.push_back(126);
    frame.push_back(static_cast<char>(text.size() >> 8));
    frame.push_back(static_cast<char>(text.size()));
    return driver_->OnBytes(frame + text);
  }
  static Json Observation(const Json& observed, const Json& reward = nullptr, bool done = false) {
    return {{"type", "observation"},
            {"data", {{"observation", observed}, {"reward", reward}, {"done", done}}}};
  }
  static Json Error(const std::string& code) {
    return {{"type", "error"}, {"data", {{"code", code}, {"message", "m"}}}};
  }
};

const Json kText = {{"properties", {{"message", {{"type", "string"}}}}},
                    {"required", Json::array({"message"})}};

TEST_F(OpenEnv, ResetAndStepsUntilDoneAddUpTheRewards) {
  Open("openenv", {{"seed", 5}});
  Shake(kText);
  EXPECT_EQ(Sent(), Json({{"type", "reset"}, {"data", {{"seed", 5}}}}));
  const auto ask = As<AskModel>(Hear(Observation("say something")));
  EXPECT_EQ(ask.path, "/v1/chat/completions");
  EXPECT_EQ(ask.body["messages"][0]["content"], "Play well.");
  EXPECT_EQ(ask.body["messages"][1]["content"], "say something");
  As<Await>(driver_->OnModel(Chat({{"role", "assistant"}, {"content", "hello"}})));
  EXPECT_EQ(Sent(), Json({{"type", "step"}, {"data", {{"message", "hello"}}}}));
  const auto next = As<AskModel>(Hear(Observation("more", 0.25)));
  EXPECT_EQ(next.body["messages"].size(), 4u);
  As<Await>(driver_->OnModel(
      Chat({{"role", "assistant"}, {"content", "so: {\"message\": \"x\"} it is"}})));
  EXPECT_EQ(Sent(), Json({{"type", "step"}, {"data", {{"message", "x"}}}}));
  EXPECT_EQ(Paid(As<EndEpisode>(Hear(Observation("bye", 1, true)))), 1.25);
}

TEST_F(OpenEnv, PingsAreAnsweredWhileTheModelThinks) {
  Open("openenv", Json::object());
  Shake(kText);
  (void)driver_->TakeOutput();
  As<AskModel>(Hear(Observation("go")));
  EXPECT_FALSE(driver_->OnBytes(std::string("\x89\x02hi", 4)).has_value());
  const std::string pong = driver_->TakeOutput();
  ASSERT_EQ(pong.size(), 8u);
  EXPECT_EQ(static_cast<uint8_t>(pong[0]), 0x8A);
  EXPECT_EQ(pong[6] ^ pong[2], 'h');
}

TEST_F(OpenEnv, WhatGoesWrongIsOfItsKind) {
  const auto after_reset = [this](const Json& message) {
    Open("openenv", Json::object());
    Shake(kText);
    return As<FailEpisode>(Hear(message)).failure;
  };
  EXPECT_EQ(after_reset(Error("CAPACITY_REACHED")), Failure::kCapacity);
  EXPECT_EQ(after_reset(Error("FACTORY_ERROR")), Failure::kEnvironment);
  EXPECT_EQ(after_reset({{"type", "state"}, {"data", Json::object()}}), Failure::kConnection);
  EXPECT_EQ(after_reset("garbage"), Failure::kConnection);
  Open("openenv", Json::object());
  Shake(kText);
  As<AskModel>(Hear(Observation("go")));
  EXPECT_EQ(As<FailEpisode>(driver_->OnBytes(std::string("\x88\x00", 2))).failure,
            Failure::kConnection)
      << "it closed in the middle";
}

TEST_F(OpenEnv, ABadActionIsTheAgentsAndItIsToldSo) {
  Open("openenv", Json::object());
  Shake({{"properties", {{"a", {{"type", "integer"}}}, {"b", {{"type", "integer"}}}}},
         {"required", Json::array({"a", "b"})}});
  const auto first = As<AskModel>(Hear(Observation("go")));
  EXPECT_NE(first.body["messages"][1]["content"].get<std::string>().find("JSON object"),
            std::string::npos);
  auto ask = As<AskModel>(driver_->OnModel(Chat({{"role", "assistant"}, {"content", "seven"}})));
  EXPECT_EQ(ask.body["messages"].back()["content"],
            "This action is not valid. It must be a JSON object.");
  As<Await>(driver_->OnModel(Chat({{"role", "assistant"}, {"content", "{\"a\": 1}"}})));
  As<AskModel>(Hear(Error("VALIDATION_ERROR")));
  EXPECT_EQ(driver_->TakeBadActions(), 2u);
  // Its third turn is its last.
  EXPECT_EQ(
      Paid(As<EndEpisode>(driver_->OnModel(Chat({{"role", "assistant"}, {"content", "eight"}})))),
      0);
}

TEST_F(OpenEnv, ToolsOfTheModelContextProtocolAreSteps) {
  Open("openenv", Json::object());
  Shake({{"properties", {{"type", Json::object()}, {"tool_name", Json::object()}}}});
  (void)driver_->TakeOutput();
  As<Await>(Hear(Observation(Json::object())));
  EXPECT_EQ(Sent()["data"]["method"], "tools/list");
  const Json tools = Json::array({{{"name", "add"}, {"inputSchema", {{"type", "object"}}}}});
  const auto ask = As<AskModel>(
      Hear({{"type", "mcp"}, {"data", {{"jsonrpc", "2.0"}, {"result", {{"tools", tools}}}}}}));
  EXPECT_EQ(ask.body["tools"][0]["function"]["name"], "add");
  const Json call = {{"id", "c1"},
                     {"type", "function"},
                     {"function", {{"name", "add"}, {"arguments", "{\"x\": 1}"}}}};
  As<Await>(driver_->OnModel(
      Chat({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({call})}})));
  EXPECT_EQ(Sent()["data"],
            Json({{"type", "call_tool"}, {"tool_name", "add"}, {"arguments", {{"x", 1}}}}));
  const auto next = As<AskModel>(Hear(Observation({{"result", 2}}, 1)));
  EXPECT_EQ(next.body["messages"].back()["role"], "tool");
  const auto end =
      As<EndEpisode>(driver_->OnModel(Chat({{"role", "assistant"}, {"content", "two"}})));
  EXPECT_EQ(Paid(end), 1);
}

}  // namespace
}  // namespace tidemill
