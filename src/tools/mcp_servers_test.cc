// Tools of MCP servers, through the executor: one in a box, one behind HTTP.
#include "tools/mcp_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "testing/scripted_endpoint.h"
#include "testing/tool_fixture.h"
#include "tools/mcp_offer.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

constexpr char kScriptedMcp[] = R"(
import json, os, sys
calls = 0
def tool(name):
    return {"name": name, "description": "Does " + name + ".",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
def result(text, failed=False):
    return {"content": [{"type": "text", "text": text}], "isError": failed}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {},
                            "serverInfo": {"name": "scripted", "version": os.environ.get("V", "1")}}
    elif asked["method"] == "tools/list":
        names = ["echo", "fail", "refuse", "die", "hang", "babble", "read_file"]
        answer["result"] = {"tools": [tool(name) for name in names]}
    else:
        name, calls = asked["params"]["name"], calls + 1
        if name == "die":
            sys.exit("out of order")
        if name == "hang":
            continue
        if name == "babble":
            print("no message", flush=True)
        if name == "refuse":
            answer["error"] = {"code": -32602, "message": "a must be small"}
        else:
            text = "%d %s" % (calls, json.dumps(asked["params"]["arguments"]))
            answer["result"] = result(text, name == "fail")
    print(json.dumps(answer), flush=True)
)";

ToolConfig BoxedConfig() {
  ToolConfig config;
  McpConfig server;
  server.name = "scripted";
  server.command = {"python3", "-c", kScriptedMcp};
  server.tools = {"echo", "fail", "refuse", "die", "hang", "babble"};
  server.slots = 1;
  config.mcp = {server};
  return config;
}

class McpToolsTest : public testing::Test {
 protected:
  void Open(const ToolConfig& config, Duration call = std::chrono::seconds(60)) {
    ToolExecutorOptions options;
    options.slots = options.grade_slots = 1;
    auto specs = McpServersFrom(config);
    ASSERT_TRUE(specs.ok()) << specs.status().ToString();
    for (McpServerSpec& spec : *specs) spec.call = call;
    options.tools.mcp = std::move(*specs);
    auto created = ToolExecutor::Create(options, nullptr, clock_);
    ASSERT_TRUE(created.ok()) << created.status().ToString();
    executor_ = std::move(*created);
    executor_->completions().Attach(bell_);
  }
  v1::ToolResult Call(const std::string& tool, const std::string& arguments = "{}") {
    executor_->Submit(Request(tool, {{"a.txt", "one"}}, arguments), next_tag_++);
    for (;;) {
      auto done = executor_->completions().TakeAll();
      if (!done.empty()) return done.front().result;
      TM_CHECK(bell_.Wait(std::chrono::seconds(60)), "no tool answered in a minute");
    }
  }

  const RealClock clock_;
  Bell bell_;
  std::unique_ptr<ToolExecutor> executor_;
  uint64_t next_tag_ = 1;
};

TEST_F(McpToolsTest, AServerInABoxIsAskedForItsToolsAndCarriesOutCalls) {
  ToolConfig config = BoxedConfig();
  ASSERT_TRUE(ListMcpTools(config).ok());
  const auto offered = OfferedMcpTools(config);
  ASSERT_TRUE(offered.ok()) << offered.status().ToString();
  ASSERT_EQ(offered->size(), 6u);
  EXPECT_EQ(offered->front().shown.name, "echo");
  EXPECT_EQ(offered->front().shown.description, "Does echo.");
  EXPECT_THAT(offered->front().shown.parameters_json, HasSubstr("\"integer\""));
  Open(config);
  v1::ToolResult result = Call("echo", R"({"a": 1})");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.cause();
  EXPECT_EQ(result.text(), "1 {\"a\": 1}");
  EXPECT_EQ(result.tree().files_size(), 1) << "the workspace is as it was";
  result = Call("fail");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED) << "the tool's own error is a result";
  EXPECT_EQ(result.text(), "2 {}") << "the same program";
  result = Call("refuse");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_INVALID) << "so are arguments that it refuses";
  EXPECT_THAT(result.cause(), HasSubstr("a must be small"));
  EXPECT_EQ(Call("echo", "[1]").outcome(), v1::OUTCOME_INVALID);
  EXPECT_EQ(Call("nothing").outcome(), v1::OUTCOME_INVALID);
}

TEST_F(McpToolsTest, AServerThatEndsOrTalksNonsenseIsOursAndTheNextCallHasAnother) {
  ToolConfig config = BoxedConfig();
  ASSERT_TRUE(ListMcpTools(config).ok());
  Open(config);
  EXPECT_EQ(Call("echo").text(), "1 {}");
  v1::ToolResult result = Call("die");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_UNAVAILABLE);
  EXPECT_THAT(result.cause(), HasSubstr("scripted"));
  EXPECT_THAT(result.cause(), HasSubstr("out of order")) << "its last words";
  EXPECT_EQ(Call("echo").text(), "1 {}") << "another program";
  EXPECT_EQ(Call("babble").outcome(), v1::OUTCOME_UNAVAILABLE);
  EXPECT_EQ(Call("echo").text(), "1 {}");
}

TEST_F(McpToolsTest, AServerThatSaysNothingIsATimeoutOfOurs) {
  ToolConfig config = BoxedConfig();
  ASSERT_TRUE(ListMcpTools(config).ok());
  Open(config, milliseconds(50));
  const v1::ToolResult result = Call("hang");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_UNAVAILABLE);
  EXPECT_THAT(result.cause(), HasSubstr("in time"));
}

TEST_F(McpToolsTest, AnExecutorThatEndsDoesNotWaitForAServer) {
  ToolConfig config = BoxedConfig();
  ASSERT_TRUE(ListMcpTools(config).ok());
  Open(config, std::chrono::hours(1));
  EXPECT_EQ(Call("echo").text(), "1 {}");
  executor_->Submit(Request("hang", {}), next_tag_++);
  executor_.reset();
}

TEST(McpOffer, NamesThatAModelCannotTellApartOrCallAreRefusedByTable) {
  ToolConfig config = BoxedConfig();
  const auto why = [&] { return OfferedMcpTools(config).status().message(); };
  EXPECT_THAT(why(), HasSubstr("tools.mcp \"scripted\": the server was not asked"));
  McpConfig& server = config.mcp[0];
  server.listed = R"({"tools": [{"name": "read_file", "inputSchema": {}},
                               {"name": "find it", "inputSchema": {}}]})";
  server.tools = {"echo"};
  EXPECT_THAT(why(), HasSubstr("no tool \"echo\"; it has: read_file find it"));
  server.tools = {"read_file"};
  EXPECT_THAT(why(), HasSubstr("there is another tool \"read_file\"; set prefix"));
  server.prefix = "fs_";
  EXPECT_EQ(why(), "");
  EXPECT_EQ(OfferedMcpTools(config)->front().shown.name, "fs_read_file");
  EXPECT_EQ(McpServersFrom(config)->front().tools.at("fs_read_file"), "read_file");
  CommandConfig command;
  command.name = "fs_read_file";
  config.command = {command};
  EXPECT_THAT(why(), HasSubstr("another tool"));
  server.tools = {"find it"};
  EXPECT_THAT(why(), HasSubstr("no name that a model can call"));
  server.tools.clear();
  server.mounts = {"relative"};
  config.command.clear();
  server.listed = R"({"tools": []})";
  EXPECT_THAT(McpServersFrom(config).status().message(),
              HasSubstr("tools.mcp \"scripted\": mounts: must be absolute"));
  server.listed.clear();
  server.mounts.clear();
  server.command = {"/no/such/server"};
  EXPECT_THAT(ListMcpTools(config).message(), HasSubstr("/no/such/server"));
}

// Sessions that are forgotten after each call.
class ForgetfulServer {
 public:
  ForgetfulServer()
      : endpoint_([this](const std::string& head, const std::string& body) {
          return React(head, body);
        }) {}
  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(endpoint_.port()) + "/mcp";
  }
  void Stop() { endpoint_.Stop(); }

 private:
  ScriptedEndpoint::Reaction React(const std::string& head, const std::string& body) {
    const auto reply = [](const std::string& status, const std::string& more,
                          const std::string& text) {
      return ScriptedEndpoint::Reaction{
          .bytes = "HTTP/1.1 " + status + "\r\n" + more + "Content-Type: application/json\r\n" +
                   "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text};
    };
    if (head.starts_with("DELETE")) return reply("200 OK", "", "");
    const RpcMessage asked = ParseRpc(body).message;
    if (asked.kind != RpcMessage::Kind::kRequest) return reply("202 Accepted", "", "");
    if (asked.method == "initialize") {
      remembers_ = true;
      const RpcJson greeting = {{"protocolVersion", std::string(kMcpVersion)},
                                {"serverInfo", {{"name", "forgetful"}, {"version", "1"}}}};
      return reply("200 OK", "Mcp-Session-Id: s\r\n", DumpRpc(RpcResult(asked.id, greeting)));
    }
    if (asked.method == "tools/list") {
      const RpcJson tool = {{"name", "add"}, {"inputSchema", {{"type", "object"}}}};
      return reply("200 OK", "", DumpRpc(RpcResult(asked.id, {{"tools", {tool}}})));
    }
    if (!std::exchange(remembers_, false)) return reply("404 Not Found", "", "");
    const RpcJson text = {{"type", "text"}, {"text", "done"}};
    return reply("200 OK", "", DumpRpc(RpcResult(asked.id, {{"content", {text}}})));
  }

  bool remembers_ = false;
  ScriptedEndpoint endpoint_;
};

TEST_F(McpToolsTest, AServerBehindHttpThatForgotTheSessionIsGreetedAgain) {
  ForgetfulServer server;
  ToolConfig config;
  config.mcp.resize(1);
  config.mcp[0].name = "far";
  config.mcp[0].url = server.url();
  config.mcp[0].slots = 1;
  const Status listed = ListMcpTools(config);
  ASSERT_TRUE(listed.ok()) << listed.ToString();
  Open(config);
  EXPECT_EQ(Call("add").text(), "done");
  EXPECT_EQ(Call("add").text(), "done") << "in another session";
  server.Stop();
  EXPECT_EQ(Call("add").outcome(), v1::OUTCOME_UNAVAILABLE);
}

}  // namespace
}  // namespace tidemill
