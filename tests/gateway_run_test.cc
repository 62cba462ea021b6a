// A run that serves its own policy while it learns.
#include <gtest/gtest.h>

#include <set>

#include "testing/http_client.h"
#include "testing/test_kit.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

class GatewayRun : public LineTest {
 protected:
  static std::string Ask(int port) {
    const std::string body =
        R"({"model":"m","prompt":"int f","max_tokens":8,"return_token_ids":true})";
    RawClient client(static_cast<uint16_t>(port));
    client.Send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.ReadToEnd();
  }
};

TEST_F(GatewayRun, EveryRequestIsAnsweredWhileThePolicyChanges) {
  const int port = FreePort();
  BackgroundProgram program(
      Train("served", "--set run.steps=100000 --set gateway.port=" + std::to_string(port)),
      {.log = folder_ + "/log", .out = folder_ + "/out"});
  ASSERT_TRUE(Eventually([&] { return Listens(port); }, 2 * kPatience)) << TextOf(folder_ + "/log");
  std::set<int> versions;
  const Time until = std::chrono::steady_clock::now() + 4 * kPatience;
  while (versions.size() < 4 && std::chrono::steady_clock::now() < until) {
    const std::string answer = Ask(port);
    ASSERT_EQ(StatusOf(answer), 200) << answer;
    const auto json = nlohmann::json::parse(BodyOf(answer));
    for (const int version : json["choices"][0]["policy_versions"]) versions.insert(version);
  }
  EXPECT_GE(versions.size(), 4u);
  EXPECT_EQ(program.Stop(SIGTERM), 130) << TextOf(folder_ + "/log");
}

}  // namespace
}  // namespace tidemill
