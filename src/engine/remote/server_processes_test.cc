#include "engine/remote/server_processes.h"

#include <gtest/gtest.h>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

ServerCommand Shell(const TemporaryDirectory& folder, const std::string& script) {
  return {.words = {"sh", "-c", script, "sh", "{port}"}, .log_folder = folder.path()};
}

TEST(ServerProcesses, AreStartedWithAPortOfTheirOwnAndTheirOutputIsKept) {
  const TemporaryDirectory folder;
  Result<ServerProcesses> servers =
      ServerProcesses::Start(Shell(folder, "echo port $1; exec sleep 1000"), 2);
  ASSERT_TRUE(servers.ok()) << servers.status().message();
  ASSERT_EQ(servers->urls().size(), 2u);
  EXPECT_NE(servers->urls()[0].port, servers->urls()[1].port);
  EXPECT_EQ(servers->urls()[0].host, "127.0.0.1");
  for (const size_t i : {0, 1}) {
    const std::string log = folder / ("server-" + std::to_string(i) + ".log");
    EXPECT_TRUE(
        Eventually([&] { return TextOf(log) == "port " + servers->urls()[i].port + "\n"; }));
  }
}

TEST(ServerProcesses, OneThatEndsIsStartedAgainAfterAPause) {
  const TemporaryDirectory folder;
  Result<ServerProcesses> servers =
      ServerProcesses::Start(Shell(folder, "echo up; exec sleep 1000"), 2);
  ASSERT_TRUE(servers.ok());
  Time now{};
  EXPECT_TRUE(servers->Watch(now).empty());
  const std::string log = folder / "server-1.log";
  ASSERT_TRUE(Eventually([&] { return TextOf(log) == "up\n"; }));
  servers->Kill(1);
  std::vector<size_t> others;
  ASSERT_TRUE(Eventually([&] {
    others = servers->Watch(now);
    return !others.empty();
  }));
  EXPECT_EQ(others, std::vector<size_t>{1});
  EXPECT_TRUE(servers->Watch(now + std::chrono::minutes(5)).empty());
  EXPECT_TRUE(Eventually([&] { return TextOf(log) == "up\nup\n"; }));
}

TEST(ServerProcesses, EndWithTheirOwner) {
  const TemporaryDirectory folder;
  {
    Result<ServerProcesses> servers = ServerProcesses::Start(
        Shell(folder, "trap 'echo down; exit' TERM; echo up; while :; do sleep 0.01; done"), 1);
    ASSERT_TRUE(servers.ok());
    ASSERT_TRUE(Eventually([&] { return TextOf(folder / "server-0.log") == "up\n"; }));
  }
  EXPECT_NE(TextOf(folder / "server-0.log").find("down\n"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
