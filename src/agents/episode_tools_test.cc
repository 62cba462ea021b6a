// Agents' programs that use their task's tools over the Model Context Protocol: real boxes, the
// gateway, a tool worker.
#include "agents/episode_tools.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "mcp/http_transport.h"
#include "mcp/mcp_client.h"
#include "testing/agent_fixture.h"
#include "testing/tool_fixture.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Messages by hand, so that wrong ones can be sent, too.
constexpr const char* kMcpProgram = R"py(
URL = os.environ["TIDEMILL_MCP_URL"]
def Post(body, session=None, key=os.environ["OPENAI_API_KEY"], method="POST", **more):
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json",
               "Accept": "application/json, text/event-stream"}
    if session: headers["Mcp-Session-Id"] = session
    headers.update({k.replace("_", "-"): v for k, v in more.items()})
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    request = urllib.request.Request(URL, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text, code, said = answer.read().decode(), answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        text, code, said = error.read().decode(), error.code, dict(error.headers)
    except OSError:  # the connection was closed while it was sending
        return 0, [], {}
    messages = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    if not messages and text.strip(): messages = [json.loads(text)]
    return code, messages, said
count = 0
def Rpc(method, params={}, session=None, **more):
    global count
    count += 1
    return Post({"jsonrpc": "2.0", "id": count, "method": method, "params": params}, session, **more)
def Session():
    code, messages, said = Rpc("initialize", {"protocolVersion": "2025-03-26", "capabilities": {},
                                              "clientInfo": {"name": "x", "version": "1"}})
    assert code == 200, (code, messages)
    session = {k.lower(): v for k, v in said.items()}["mcp-session-id"]
    Post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    return session
def Texts(session, tool, arguments={}, **meta):
    params = {"name": tool, "arguments": arguments}
    if meta: params["_meta"] = meta
    code, messages, said = Rpc("tools/call", params, session)
    return [part["text"] for part in messages[-1]["result"]["content"]]
)py";

class McpAgentTest : public AgentTest {
 protected:
  McpAgentTest() : bus_(clock_) {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    ToolExecutorOptions boxes;
    boxes.slots = 2;
    boxes.grade_slots = 1;
    boxes.tools.commands = Commands();
    auto created = ToolExecutor::Create(boxes, nullptr, clock_);
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    executor_ = std::move(*created);
    ToolLoopOptions worker;
    worker.worker = "tools-1";
    worker.cache = 0;
    tools_ = std::make_unique<ToolLoop>(bus_, *executor_, worker);
    options_.tools = BuiltInTools();
    for (const CommandTool& command : boxes.tools.commands) {
      const bool sleeps = command.name == "slow";
      options_.tools.push_back(
          {command.name, command.description,
           sleeps ? R"({"type":"object","properties":{"seconds":{"type":"string"}}})"
                  : R"({"type":"object","properties":{}})"});
    }
    options_.limits.reading_tools = {"slow"};
    options_.limits.background["run_tests"] = {.use = BackgroundUse::kAllowed};
    options_.limits.background["slow"] = {.use = BackgroundUse::kAllowed};
    options_.limits.background["stamp"] = {.use = BackgroundUse::kAllowed, .keeps_files = true};
    for (ToolDescription& tool : options_.tools) {
      tool = WithBackground(tool, BackgroundOf(options_.limits, tool.name).use).value();
    }
    options_.tools.insert(options_.tools.end(), JobTools().begin(), JobTools().end());
    for (const char* name : {"compile", "run_tests", "write_file", "read_file", "slow", "stamp"}) {
      lease_.mutable_task()->add_tools(name);
    }
  }
  ~McpAgentTest() override {
    runner_.reset();
    server_.reset();
    loops_.reset();
  }

  static std::vector<CommandTool> Commands() {
    CommandTool slow;
    slow.name = "slow";
    slow.description = "Sleeps";
    slow.command = {"/bin/sleep", "{seconds}"};
    slow.changes = false;
    CommandTool stamp;
    stamp.name = "stamp";
    stamp.description = "Writes stamp.txt";
    stamp.command = {"/bin/sh", "-c", "echo stamped > stamp.txt; hostname"};
    return {slow, stamp};
  }

  void AddLoops() override {
    mcp_ = std::make_unique<EpisodeTools>(bus_, clock_, options_, recorder_.get());
    loops_->Add(*tools_);
    loops_->Add(*mcp_);
  }
  AgentOutcome RunMcp(const std::string& script) {
    Serve("yes");
    return Run(kMcpProgram + script);
  }
  static nlohmann::json Written(const AgentOutcome& outcome) {
    return nlohmann::json::parse(FileOf(outcome, "out.json"), nullptr, false);
  }

  MemoryBus bus_;
  EpisodeToolsOptions options_;
  std::unique_ptr<ToolExecutor> executor_;
  std::unique_ptr<ToolLoop> tools_;
};

TEST_F(McpAgentTest, ItsTasksToolsSeeItsFilesAndWhatTheyWriteIsThere) {
  const AgentOutcome outcome = RunMcp(R"py(
Ask("hello")
s = Session()
out = {"tools": [t["name"] for t in Rpc("tools/list", {}, s)[1][0]["result"]["tools"]]}
Write("a.c", "int main(void) { return 1 }")
out["broken"] = Texts(s, "compile")
out["written"] = Texts(s, "write_file", {"path": "sub/a.txt", "content": "by the tool"})
out["mine"] = open("sub/a.txt").read()
Write("a.c", "int main(void) { return 1; }")
out["fine"] = Texts(s, "compile")
out["unknown"] = Rpc("tools/call", {"name": "grade"}, s)[1][0]["error"]["message"]
out["wrong"] = Rpc("tools/call", {"name": "read_file", "arguments": {}}, s)[1][0]["result"]["isError"]
Write("out.json", json.dumps(out))
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const auto out = Written(outcome);
  ASSERT_TRUE(out.is_object()) << outcome.words;
  EXPECT_THAT(out["tools"].get<std::vector<std::string>>(),
              ElementsAre("compile", "run_tests", "write_file", "read_file", "slow", "stamp",
                          "wait", "cancel", "jobs"));
  EXPECT_THAT(out["broken"][0].get<std::string>(), HasSubstr("a.c:1"));
  EXPECT_EQ(out["mine"], "by the tool");
  EXPECT_THAT(out["fine"][0].get<std::string>(), testing::Not(HasSubstr("error")));
  EXPECT_THAT(out["unknown"].get<std::string>(), HasSubstr("grade"));
  EXPECT_EQ(out["wrong"], true);
  EXPECT_EQ(FileOf(outcome, "sub/a.txt"), "by the tool");
  ASSERT_EQ(outcome.calls.size(), 4u);
  EXPECT_EQ(outcome.calls[0].tool(), "compile");
  EXPECT_EQ(outcome.calls[1].arguments_json(), R"({"path":"sub/a.txt","content":"by the tool"})");
  EXPECT_TRUE(outcome.calls[2].compiled());
  EXPECT_GT(outcome.calls[2].answered_ms(), 0);
}

TEST_F(McpAgentTest, BackgroundCallsGoOnAndTheirResultsComeOnceWithALaterAnswer) {
  const AgentOutcome outcome = RunMcp(R"py(
Ask("hello")
s = Session()
Write("test_a.c", "int main(void) { return 0; }")
out = {"handle": Texts(s, "run_tests", {"background": True})}
out["stamp"] = Texts(s, "stamp", {"background": True})
out["slow"] = Texts(s, "slow", {"seconds": "100", "background": True})
out["waited"] = Texts(s, "wait", {"handles": ["b1", "b2"], "for": "all"})
out["file"] = open("stamp.txt").read()
out["jobs"] = Texts(s, "jobs")
out["cancel"] = Texts(s, "cancel", {"handles": ["b3"]})
out["late"] = Texts(s, "wait", {"timeout_s": 0})
out["unknown"] = Texts(s, "wait", {"handles": ["b9"]})
Write("out.json", json.dumps(out))
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const auto out = Written(outcome);
  ASSERT_TRUE(out.is_object()) << outcome.words;
  EXPECT_THAT(out["handle"][0].get<std::string>(),
              HasSubstr("b1: run_tests runs in the background"));
  std::string told;
  for (const char* answer : {"handle", "stamp", "slow", "waited", "jobs", "cancel", "late"}) {
    for (size_t i = 1; i < out[answer].size(); ++i)
      told += out[answer][i].get<std::string>() + "\n";
  }
  EXPECT_THAT(told, HasSubstr("b1 (run_tests): "));
  EXPECT_THAT(told, HasSubstr("b2 (stamp): "));
  EXPECT_EQ(told.find("b1 ("), told.rfind("b1 ("));
  EXPECT_EQ(out["file"], "stamped\n");
  EXPECT_THAT(out["jobs"][0].get<std::string>(), HasSubstr("b3 (slow): runs"));
  EXPECT_THAT(out["cancel"][0].get<std::string>(), HasSubstr("b3 (slow): cancelled"));
  EXPECT_THAT(out["unknown"][0].get<std::string>(), HasSubstr("there is no \"b9\""));
  ASSERT_EQ(outcome.calls.size(), 8u);
  EXPECT_EQ(outcome.calls[0].handle(), "b1");
  EXPECT_EQ(outcome.calls[0].tests_passed(), 1u);
  EXPECT_TRUE(outcome.calls[2].cancelled());
}

TEST_F(McpAgentTest, AFileThatChangedMeanwhileIsKeptAndTheAgentTold) {
  const AgentOutcome outcome = RunMcp(R"py(
Ask("hello")
s = Session()
Write("go.sh", "x")
Texts(s, "slow", {"seconds": "0"})
Texts(s, "stamp", {"background": True})
Write("stamp.txt", "mine")
Write("out.json", json.dumps(Texts(s, "wait", {"for": "all"})))
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const auto out = Written(outcome);
  ASSERT_EQ(out.size(), 2u) << outcome.words;
  // Whichever was first: nothing of the agent's is written over without its knowledge.
  const bool told =
      out[1].get<std::string>().find("changed meanwhile: stamp.txt") != std::string::npos;
  EXPECT_EQ(FileOf(outcome, "stamp.txt"), "mine") << out;
  EXPECT_TRUE(told || out[1].get<std::string>().find("b1 (stamp)") == 0) << out;
}

TEST_F(McpAgentTest, ACancelledCallEndsWithoutAnAnswerAndProgressIsTold) {
  options_.progress_every = milliseconds(20);
  const AgentOutcome outcome = RunMcp(R"py(
import threading
Ask("hello")
s, seen = Session(), {}
def Slow(name, id, token):
    params = {"name": "slow", "arguments": {"seconds": "100"}, "_meta": {"progressToken": token}}
    seen[name] = Post({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}, s)
one = threading.Thread(target=Slow, args=("one", "c-1", "t-1"))
one.start()
def Known():
    return Texts(s, "jobs")
while True:
    code, _, _ = Post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c-1"}}, s)
    one.join(0.05)
    if not one.is_alive(): break
quick = {"name": "slow", "arguments": {"seconds": "0.3"}, "_meta": {"progressToken": 7}}
told = Post({"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": quick}, s)
Write("out.json", json.dumps({"cancelled": seen["one"][1], "note": code, "told": told[1]}))
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const auto out = Written(outcome);
  ASSERT_TRUE(out.is_object()) << outcome.words;
  EXPECT_EQ(out["note"], 202);
  for (const auto& message : out["cancelled"]) EXPECT_FALSE(message.contains("id")) << message;
  ASSERT_GT(out["told"].size(), 1u);
  EXPECT_EQ(out["told"][0]["method"], "notifications/progress");
  EXPECT_EQ(out["told"][0]["params"]["progressToken"], 7);
  EXPECT_EQ(out["told"].back()["id"], "q");
  EXPECT_TRUE(outcome.calls[0].cancelled());
}

TEST_F(McpAgentTest, WhatIsNoMessageOfASessionIsRefused) {
  const AgentOutcome outcome = RunMcp(R"py(
Ask("hello")
s = Session()
call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
out = {
  "no session": Post(call)[0], "other session": Post(call, "f" * 64)[0],
  "no key": Post(call, s, key="")[0], "version": Post(call, s, MCP_Protocol_Version="1999-01-01")[0],
  "known version": Post(call, s, MCP_Protocol_Version="2024-11-05")[0],
  "get": Post(None, s, method="GET")[0], "put": Post(b"{}", s, method="PUT")[0],
  "no json": Post(b"{", s)[0], "batch": Post([call], s)[0], "deep": Post(b"[" * 5000, s)[0],
  "bytes": Post(b"\xff\xfe", s)[0], "large": Post(b" " * (5 << 20), s)[0],
  "accept": Post(call, s, Accept="image/png")[0],
  "method": Rpc("tools/burn", {}, s)[1][0]["error"]["code"],
  "params": Rpc("tools/call", {"name": 3}, s)[1][0]["error"]["code"],
  "arguments": Rpc("tools/call", {"name": "jobs", "arguments": []}, s)[1][0]["error"]["code"],
  "ping": Rpc("ping", {}, s)[1][0]["result"],
  "sessions": [Rpc("initialize", {})[0] for _ in range(70)].count(429),
  "closed": Post(None, s, method="DELETE")[0], "gone": Post(call, s)[0],
  "other delete": Post(None, None, method="DELETE")[0],
}
Write("out.json", json.dumps(out))
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const auto out = Written(outcome);
  ASSERT_TRUE(out.is_object()) << outcome.words;
  const nlohmann::json wanted = {{"no session", 400},
                                 {"other session", 404},
                                 {"no key", 401},
                                 {"version", 400},
                                 {"known version", 200},
                                 {"get", 405},
                                 {"put", 405},
                                 {"no json", 400},
                                 {"batch", 400},
                                 {"deep", 400},
                                 {"bytes", 400},

                                 {"accept", 406},
                                 {"method", -32601},
                                 {"params", -32602},
                                 {"arguments", -32602},
                                 {"ping", nlohmann::json::object()},
                                 {"sessions", 7},
                                 {"closed", 200},
                                 {"gone", 404},
                                 {"other delete", 400}};
  EXPECT_TRUE(out["large"] == 413 || out["large"] == 0) << out["large"];
  for (const auto& [name, value] : wanted.items()) EXPECT_EQ(out[name], value) << name;
}

TEST_F(McpAgentTest, TenThousandJobsCostOnlyTheEpisode) {
  options_.limits.jobs.jobs = 3;
  lease_.set_max_turns(10);  // 80 calls
  const AgentOutcome outcome = RunMcp(R"py(
Ask("hello")
s, said = Session(), {}
for i in range(1000):
    text = Texts(s, "slow", {"seconds": "100", "background": True})[0]
    said[text.split(":")[0][:40]] = said.get(text.split(":")[0][:40], 0) + 1
Write("out.json", json.dumps(said))
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const auto out = Written(outcome);
  ASSERT_TRUE(out.is_object()) << outcome.words;
  EXPECT_EQ(out["b1"], 1) << out;
  EXPECT_EQ(out["b3"], 1) << out;
  EXPECT_FALSE(out.contains("b4")) << out;
  EXPECT_EQ(outcome.calls.size(), 80u);
  EXPECT_LE(tools_->counters().requests.load(), 3u);
}

// Our own client, with a key that is served at the gateway's address.
TEST_F(McpAgentTest, TheProgramsOwnClientSpeaksWithIt) {
  Serve("yes");
  auto host = BoxHost::Create({});
  ASSERT_TRUE(host.ok()) << host.status().ToString();
  auto box = (*host)->Open();
  ASSERT_TRUE(box.ok() && (*box)->Configure({}).ok());
  BoxErrands errands;
  std::thread program([&] {
    RunSpec spec;
    spec.command = {"/bin/sh", "-c", "while [ ! -e end.txt ]; do sleep 0.01; done"};
    spec.errands = &errands;
    (void)(*box)->Run(spec);
  });
  auto group = std::make_shared<EpisodeGroup>();
  group->lease = lease_;
  mcp_->Open("e", {group, 0, &errands, nullptr});
  server_->gateway().Invite("tmk-own", {.name = "e", .session = "e"});
  {
    auto transport =
        HttpTransport::Make({.url = server_->gateway().url() + "mcp", .bearer = "tmk-own"});
    ASSERT_TRUE(transport.ok()) << transport.status().ToString();
    auto client = McpClient::Connect(std::move(*transport), {});
    ASSERT_TRUE(client.ok()) << client.status().ToString();
    EXPECT_EQ((*client)->server().name, "tidemill");
    EXPECT_EQ((*client)->Tools().value().size(), 9u);
    const auto written = (*client)->Call("write_file", {{"path", "end.txt"}, {"content", "x"}},
                                         std::chrono::seconds(30));
    ASSERT_TRUE(written.ok()) << written.status().ToString();
    EXPECT_FALSE(written->failed) << written->text;
    EXPECT_EQ((*client)->Call("none", RpcJson::object(), std::chrono::seconds(30)).status().code(),
              Code::kInvalid);
  }
  program.join();
  const EpisodeTools::Ending ending = mcp_->Close("e", **box);
  ASSERT_EQ(ending.calls.size(), 1u);
  EXPECT_TRUE(ending.failed.ok());
}

constexpr const char* kLeaves = R"py(
Ask("hello")
s = Session()
Texts(s, "stamp", {"background": True})
)py";

TEST_F(McpAgentTest, BackgroundCallsAreAwaitedAtTheEndWhereTheRunSaysSo) {
  options_.limits.on_submit = "wait";
  const AgentOutcome outcome = RunMcp(kLeaves);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(FileOf(outcome, "stamp.txt"), "stamped\n");
  EXPECT_FALSE(outcome.calls.at(0).cancelled());
}

TEST_F(McpAgentTest, NobodyAwaitsThemWhereTheProcessEnds) {
  options_.limits.on_submit = "wait";
  tools_->Drain();  // nobody takes a call
  Serve("yes");
  mcp_->Drain();
  const AgentOutcome outcome = Run(std::string(kMcpProgram) + kLeaves);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_TRUE(outcome.calls.at(0).cancelled());
}

constexpr const char* kOneCall = R"py(
Ask("hello")
s = Session()
Write("out.json", json.dumps(Texts(s, "slow", {"seconds": "0"})))
)py";

TEST_F(McpAgentTest, AToolThatFailsThroughUsFailsTheAttempt) {
  options_.limits.tool_retries = 0;
  options_.call_patience = milliseconds(50);
  tools_->Drain();  // nobody takes a call
  const AgentOutcome failed = RunMcp(kOneCall);
  EXPECT_EQ(failed.status.code(), Code::kUnavailable);
  EXPECT_THAT(failed.status.message(), HasSubstr("slow: no answer in time"));
  EXPECT_EQ(failed.failure, Failure::kTool);
}

TEST_F(McpAgentTest, AToolThatFailsThroughUsIsSkippedWhereTheRunSaysSo) {
  options_.limits.tool_retries = 1;
  options_.call_patience = milliseconds(50);
  options_.limits.on_unavailable = "skip";
  tools_->Drain();
  const AgentOutcome skipped = RunMcp(kOneCall);
  ASSERT_TRUE(skipped.status.ok()) << skipped.status.ToString();
  EXPECT_THAT(Written(skipped)[0].get<std::string>(), HasSubstr("unavailable at the moment"));
  EXPECT_TRUE(skipped.calls.at(0).skipped());
  EXPECT_EQ(skipped.calls.at(0).retries(), 1u);
}

}  // namespace
}  // namespace tidemill
