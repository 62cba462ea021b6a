#include "mcp/mcp_client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "mcp/event_lines.h"
#include "mcp/http_transport.h"
#include "mcp/stdio_transport.h"
#include "testing/scripted_endpoint.h"

namespace tidemill {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);

// What a server says to a message; several messages, or none.
using McpScript = std::function<std::vector<RpcMessage>(const RpcMessage&)>;

RpcJson ToolListed(const std::string& name) {
  return {{"name", name}, {"description", "d"}, {"inputSchema", {{"type", "object"}}}};
}

// Two pages of tools; "echo" gives its arguments back, after progress and a ping.
std::vector<RpcMessage> EchoServer(const RpcMessage& message) {
  if (message.kind != RpcMessage::Kind::kRequest) return {};
  if (message.method == "initialize") {
    return {RpcResult(message.id, {{"protocolVersion", message.params["protocolVersion"]},
                                   {"capabilities", {{"tools", RpcJson::object()}}},
                                   {"serverInfo", {{"name", "echo"}, {"version", "1"}}}})};
  }
  if (message.method == "tools/list") {
    if (!message.params.contains("cursor")) {
      return {RpcResult(message.id,
                        {{"tools", RpcJson::array({ToolListed("echo")})}, {"nextCursor", "2"}})};
    }
    return {RpcResult(message.id, {{"tools", RpcJson::array({ToolListed("fail")})}})};
  }
  if (message.method != "tools/call") {
    return {RpcFailure(message.id, kRpcMethodNotFound, "no such method")};
  }
  const std::string tool = message.params["name"];
  if (tool == "silent") return {};
  if (tool != "echo" && tool != "fail") {
    return {RpcFailure(message.id, kRpcInvalidParams, "no tool \"" + tool + "\"")};
  }
  std::vector<RpcMessage> said;
  if (message.params.contains("_meta")) {
    said.push_back(
        McpNote(kMcpProgress,
                {{"progressToken", message.params["_meta"]["progressToken"]}, {"progress", 1}}));
  }
  said.push_back(McpRequest(77, kMcpPing, RpcJson::object()));
  RpcJson text = {{"type", "text"}, {"text", message.params["arguments"].dump()}};
  RpcJson image = {{"type", "image"}, {"mimeType", "image/png"}, {"data", "AAAA"}};
  said.push_back(RpcResult(
      message.id, {{"content", RpcJson::array({text, image})}, {"isError", tool == "fail"}}));
  return said;
}

// A server at the other end of two pipes.
class PipedServer {
 public:
  explicit PipedServer(McpScript script) {
    int in[2], out[2];
    TM_CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "pipes");
    to_ = Fd(in[1]);
    from_ = Fd(out[0]);
    thread_ =
        std::thread([this, script = std::move(script), in = Fd(in[0]), out = Fd(out[1])]() mutable {
          auto wire = std::move(*StdioTransport::Make(std::move(out), std::move(in)));
          for (;;) {
            Result<RpcMessage> message = wire->Receive(kPatience);
            if (!message.ok()) return;
            heard.push_back(*message);
            for (const RpcMessage& answer : script(*message)) {
              if (!wire->Send(answer, kPatience).ok()) return;
            }
          }
        });
  }
  ~PipedServer() { Join(); }
  void Join() {
    to_.Reset();
    if (thread_.joinable()) thread_.join();
  }
  std::unique_ptr<McpTransport> Transport() {
    return std::move(*StdioTransport::Make(std::move(to_), std::move(from_)));
  }

  std::vector<RpcMessage> heard;  // read after Join

 private:
  Fd to_, from_;
  std::thread thread_;
};

void TryEcho(McpClient& client) {
  EXPECT_EQ(client.server().name, "echo");
  auto tools = client.Tools();
  ASSERT_TRUE(tools.ok()) << tools.status().ToString();
  ASSERT_EQ(tools->size(), 2u);
  EXPECT_EQ(tools->at(1).name, "fail");
  int progress = 0;
  auto echoed = client.Call("echo", {{"a", 1}}, kPatience, [&](const RpcJson&) { ++progress; });
  ASSERT_TRUE(echoed.ok()) << echoed.status().ToString();
  EXPECT_EQ(echoed->text, "{\"a\":1}\n[image image/png]");
  EXPECT_FALSE(echoed->failed);
  EXPECT_EQ(progress, 1);
  auto failed = client.Call("fail", RpcJson::object(), kPatience);
  ASSERT_TRUE(failed.ok());
  EXPECT_TRUE(failed->failed);
  EXPECT_EQ(client.Call("none", RpcJson::object(), kPatience).status().code(), Code::kInvalid);
}

TEST(McpClient, ToolsOfAProgramAreListedAndCalled) {
  PipedServer server(EchoServer);
  {
    auto client = McpClient::Connect(server.Transport(), {});
    ASSERT_TRUE(client.ok()) << client.status().ToString();
    TryEcho(**client);
  }
  server.Join();
  bool answered_ping = false;
  for (const RpcMessage& message : server.heard) {
    answered_ping |= message.kind == RpcMessage::Kind::kResult && message.id == 77;
  }
  EXPECT_TRUE(answered_ping);
}

TEST(McpClient, ACallWithoutAnAnswerInTimeIsCancelledAndTheNextOneGoesOn) {
  PipedServer server(EchoServer);
  {
    auto client = McpClient::Connect(server.Transport(), {});
    ASSERT_TRUE(client.ok());
    const Status late = (*client)->Call("silent", RpcJson::object(), milliseconds(1)).status();
    EXPECT_EQ(late.code(), Code::kTimeout) << late.ToString();
    EXPECT_TRUE((*client)->Call("echo", RpcJson::object(), kPatience).ok());
  }
  server.Join();
  bool cancelled = false;
  for (const RpcMessage& message : server.heard) {
    cancelled |= message.method == kMcpCancelled && message.params["requestId"] == 2;
  }
  EXPECT_TRUE(cancelled);
}

TEST(McpClient, AProgramThatEndsOrSpeaksNonsenseIsUnavailableOrWrong) {
  PipedServer gone([](const RpcMessage&) { return std::vector<RpcMessage>{}; });
  auto transport = gone.Transport();
  transport->Interrupt();
  EXPECT_EQ(McpClient::Connect(std::move(transport), {}).status().code(), Code::kUnavailable);
  PipedServer other([](const RpcMessage& message) {
    return std::vector<RpcMessage>{RpcResult(message.id, {{"protocolVersion", "1999-01-01"}})};
  });
  const Status refused = McpClient::Connect(other.Transport(), {}).status();
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.message().find("1999-01-01"), std::string::npos);
  int in[2], out[2];
  ASSERT_TRUE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
  ASSERT_EQ(write(out[1], "no json\n", 8), 8);
  Fd reader(in[0]), writer(out[1]);
  auto nonsense = StdioTransport::Make(Fd(in[1]), Fd(out[0]));
  EXPECT_EQ(McpClient::Connect(std::move(*nonsense), {}).status().code(), Code::kInvalid);
}

// What a server behind HTTP answers: as one message, or as events where there are more.
class HttpMcpServer {
 public:
  explicit HttpMcpServer(bool forgets = false)
      : endpoint_([this, forgets](const std::string& head, const std::string& body) {
          return React(forgets, head, body);
        }) {}
  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(endpoint_.port()) + "/mcp";
  }
  void Stop() { endpoint_.Stop(); }

  std::vector<std::string> heads;  // read after Stop

 private:
  ScriptedEndpoint::Reaction React(bool forgets, const std::string& head, const std::string& body) {
    heads.push_back(head);
    const auto reply = [](const std::string& status, const std::string& more,
                          const std::string& text) {
      return ScriptedEndpoint::Reaction{.bytes = "HTTP/1.1 " + status + "\r\n" + more +
                                                 "Content-Length: " + std::to_string(text.size()) +
                                                 "\r\n\r\n" + text};
    };
    if (head.starts_with("DELETE")) return reply("200 OK", "", "");
    const RpcParsed parsed = ParseRpc(body);
    const bool first = parsed.message.method == "initialize";
    if (!first && forgets) return reply("404 Not Found", "", "");
    const std::vector<RpcMessage> said = EchoServer(parsed.message);
    if (said.empty()) return reply("202 Accepted", "", "");
    const std::string session = first ? "Mcp-Session-Id: s-1\r\n" : "";
    if (said.size() == 1) {
      return reply("200 OK", session + "Content-Type: application/json\r\n", DumpRpc(said[0]));
    }
    std::string events = ": hello\r\n";
    for (const RpcMessage& one : said)
      events += "event: message\r\ndata: " + DumpRpc(one) + "\r\n\r\n";
    return reply("200 OK", session + "Content-Type: text/event-stream\r\n", events);
  }

  ScriptedEndpoint endpoint_;
};

TEST(McpClient, ToolsBehindHttpAreListedAndCalledInASession) {
  HttpMcpServer server;
  {
    auto transport = HttpTransport::Make({.url = server.url(), .bearer = "secret"});
    ASSERT_TRUE(transport.ok()) << transport.status().ToString();
    auto client = McpClient::Connect(std::move(*transport), {});
    ASSERT_TRUE(client.ok()) << client.status().ToString();
    TryEcho(**client);
  }
  server.Stop();
  ASSERT_GT(server.heads.size(), 3u);
  EXPECT_EQ(server.heads[0].find("Mcp-Session-Id"), std::string::npos);
  for (size_t i = 1; i < server.heads.size(); ++i) {
    EXPECT_NE(server.heads[i].find("Mcp-Session-Id: s-1"), std::string::npos);
    EXPECT_NE(server.heads[i].find("MCP-Protocol-Version: "), std::string::npos);
    EXPECT_NE(server.heads[i].find("Authorization: Bearer secret"), std::string::npos);
  }
  EXPECT_TRUE(server.heads.back().starts_with("DELETE /mcp"));
}

TEST(McpClient, AServerThatForgotTheSessionOrIsNotThereSaysSo) {
  HttpMcpServer server(/*forgets=*/true);
  auto transport = HttpTransport::Make({.url = server.url()});
  ASSERT_TRUE(transport.ok());
  EXPECT_EQ(McpClient::Connect(std::move(*transport), {}).status().code(), Code::kNotFound);
  const std::string url = server.url();
  server.Stop();
  transport = HttpTransport::Make({.url = url});
  EXPECT_EQ(McpClient::Connect(std::move(*transport), {}).status().code(), Code::kUnavailable);
  EXPECT_EQ(HttpTransport::Make({.url = "nowhere"}).status().code(), Code::kInvalid);
}

TEST(EventLines, DataOfWholeEventsIsJoinedAndTheRestIsLeftOut) {
  EXPECT_EQ(DataOfEvents("data: a\ndata:b\n\nid: 3\n\nevent: x\r\ndata:  c\r\n\r\ndata: no end\n"),
            (std::vector<std::string>{"a\nb", " c"}));
}

TEST(McpMessages, AResultThatIsNoneIsRefusedAndALongOneIsCut) {
  EXPECT_FALSE(ReadMcpCallResult(RpcJson::array(), 10).ok());
  EXPECT_FALSE(ReadMcpCallResult(RpcJson::object(), 10).ok());
  EXPECT_FALSE(ReadMcpTools({{"tools", RpcJson::array({{{"name", ""}}})}}).ok());
  const RpcJson part = {{"type", "text"}, {"text", std::string(100, 'x')}};
  auto read = ReadMcpCallResult({{"content", RpcJson::array({part, part})}}, 10);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->text, std::string(10, 'x'));
}

}  // namespace
}  // namespace tidemill
