#include "teacher/http_teacher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/scripted_endpoint.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

// The letters a to f, in order.
Tokenizer Letters() {
  return Tokenizer::Parse(
             R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer":
{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
"post_processor": null, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE",
"vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5}, "merges": []}})",
             "letters")
      .value();
}

std::string Reply(int status, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

// Echoes the prompt, shifted by `shift` in its texts, with scores that follow from the ids; of id 5
// it has none. As many endpoints do, it adds what it wrote.
std::string Echo(const std::string& request, int shift = 0) {
  const auto asked = nlohmann::json::parse(request);
  EXPECT_EQ(asked["echo"], true);
  nlohmann::json tokens = nlohmann::json::array(), scores = nlohmann::json::array();
  for (const int id : asked["prompt"]) {
    tokens.push_back(std::string(1, static_cast<char>('a' + (id + shift) % 6)));
    scores.push_back(scores.empty() || id == 5 ? nlohmann::json(nullptr)
                                               : nlohmann::json(-0.25 * (id + 1)));
  }
  tokens.push_back("z"), scores.push_back(-1);
  return nlohmann::json{
      {"choices",
       {{{"text", "z"}, {"logprobs", {{"tokens", tokens}, {"token_logprobs", scores}}}}}}}
      .dump();
}

TeacherConfig KeysFor(const ScriptedEndpoint& server) {
  TeacherConfig keys;
  keys.endpoint = "http://127.0.0.1:" + std::to_string(server.port()) + "/v1";
  keys.concurrency = 3;
  return keys;
}

TEST(HttpTeacher, ScoresTheIdsItIsGivenAndMasksThoseWithoutOne) {
  std::string head;
  ScriptedEndpoint server([&](const std::string& asked, const std::string& body) {
    head = asked;
    return ScriptedEndpoint::Reaction{Reply(200, Echo(body))};
  });
  auto teacher = HttpTeacher::Make(KeysFor(server), Letters());
  ASSERT_TRUE(teacher.ok()) << teacher.status().ToString();
  (*teacher)->Submit({7, {0, 1, 2, 5, 4}, {{1, 1}, {3, 2}}, 1});
  std::vector<TeacherDone> done;
  ASSERT_TRUE(Eventually([&] {
    done = (*teacher)->events().TakeAll();
    return !done.empty();
  }));
  EXPECT_TRUE(done[0].status.ok()) << done[0].status.ToString();
  EXPECT_EQ(done[0].tag, 7u);
  EXPECT_EQ(done[0].scores.logprobs, (std::vector<float>{-0.5f, 0, -1.25f}));
  EXPECT_EQ(done[0].scores.known, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_THAT(head, HasSubstr("POST /v1/completions"));
}

TEST(HttpTeacher, WithAnotherTokenizerIsRefusedAtTheStart) {
  ScriptedEndpoint server([&](const std::string&, const std::string& body) {
    return ScriptedEndpoint::Reaction{Reply(200, Echo(body, 1))};
  });
  EXPECT_THAT(HttpTeacher::Make(KeysFor(server), Letters()).status().message(),
              HasSubstr("teacher.endpoint: token 0 is \"b\" there, the policy's is \"a\""));
}

TEST(HttpTeacher, AnEndpointWithoutEchoIsRefusedAtTheStart) {
  ScriptedEndpoint server([&](const std::string&, const std::string&) {
    return ScriptedEndpoint::Reaction{
        Reply(200, R"({"choices": [{"text": "z", "logprobs": {"token_logprobs": [-1]}}]})")};
  });
  EXPECT_THAT(HttpTeacher::Make(KeysFor(server), Letters()).status().message(),
              HasSubstr("does the endpoint know \"echo\"?"));
}

TEST(HttpTeacher, FailuresAreToldApartAndNeverAScore) {
  int status = 200;
  ScriptedEndpoint server([&](const std::string&, const std::string& body) {
    return ScriptedEndpoint::Reaction{Reply(status, status == 200 ? Echo(body) : "no such model")};
  });
  TeacherConfig keys = KeysFor(server);
  keys.concurrency = 1;
  auto teacher = HttpTeacher::Make(keys, Letters());
  ASSERT_TRUE(teacher.ok()) << teacher.status().ToString();
  for (const auto& [answers, code] :
       {std::pair{404, Code::kInvalid}, std::pair{503, Code::kUnavailable}}) {
    status = answers;
    (*teacher)->Submit({1, {0, 1}, {{1, 1}}, 1});
    std::vector<TeacherDone> done;
    ASSERT_TRUE(Eventually([&] {
      done = (*teacher)->events().TakeAll();
      return !done.empty();
    }));
    EXPECT_EQ(done[0].status.code(), code) << done[0].status.ToString();
    EXPECT_TRUE(done[0].scores.logprobs.empty());
  }
}

TEST(HttpTeacher, AnswersThatAreNoneAreRefusedWithWhatIsWrong) {
  EXPECT_THAT(ReadEcho("[1", 2).status().message(), HasSubstr("no JSON object"));
  EXPECT_THAT(ReadEcho("{}", 2).status().message(), HasSubstr("no \"choices\""));
  EXPECT_THAT(ReadEcho(R"({"choices": [{"logprobs": 3}]})", 2).status().message(),
              HasSubstr("no \"logprobs\""));
  EXPECT_THAT(
      ReadEcho(R"({"choices": [{"logprobs": {"token_logprobs": [null]}}]})", 2).status().message(),
      HasSubstr("each of the 2 ids"));
  const auto odd = ReadEcho(
      R"({"choices": [{"logprobs": {"token_logprobs": [null, "x", -2], "tokens": 5}}]})", 3);
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->known, (std::vector<uint8_t>{0, 0, 1}));
}

}  // namespace
}  // namespace tidemill
