// A rollout worker of a fleet serves the run's policy: `tidemill worker rollout --listen`.
#include <nlohmann/json.hpp>

#include "testing/http_client.h"
#include "tests/fleet_kit.h"

namespace tidemill {
namespace {

TEST(GatewayWorker, ARolloutWorkerAnswersAChatWithTheRunsPolicy) {
  const TemporaryDirectory folder;
  MustRun("tasks generate --family cfunc --count 20 --seed 3 --difficulty 1 --out " +
          folder.path() + "/train.jsonl");
  MakeTinyModel(folder.path());
  std::ofstream(folder / "model/chat_template.jinja")
      << "{% for m in messages %}{{ m.role }} {{ m.content }}\n{% endfor %}assistant ";
  Fleet fleet(folder.path(), folder / "runs");
  const auto port = static_cast<uint16_t>(FreePort());
  fleet.Add("learner");
  fleet.Add("rollout", "--listen 127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(Eventually([&] { return Listens(port); }, kFleetPatience)) << fleet.Logs();
  const std::string body = nlohmann::json{
      {"model", "any"},
      {"messages", {{{"role", "user"}, {"content", "int main"}}}},
      {"max_tokens", 8},
      {"return_token_ids",
       true}}.dump();
  RawClient client(port);
  client.Send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string answer = client.ReadToEnd();
  ASSERT_EQ(StatusOf(answer), 200) << answer << fleet.Logs();
  const auto json = nlohmann::json::parse(BodyOf(answer));
  const auto& choice = json["choices"][0];
  EXPECT_GT(json["usage"]["prompt_tokens"], 0);
  ASSERT_FALSE(choice["token_ids"].empty()) << answer;
  EXPECT_EQ(choice["token_ids"].size(), choice["policy_versions"].size());
  EXPECT_GE(choice["policy_versions"][0], 1);
}

}  // namespace
}  // namespace tidemill
