#include "agents/agent_runner.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "http/http_server.h"
#include "testing/agent_fixture.h"
#include "testing/http_client.h"

namespace tidemill {
namespace {

using testing::HasSubstr;
using testing::Not;

// Ends the first process of the box of ours that runs such a program. False: there is none.
bool KillBoxWith(const std::string& program) {
  std::map<int, std::pair<int, std::string>> processes;  // parent and name
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream stat(entry.path() / "stat");
    int pid = 0, parent = 0;
    std::string name, state;
    if (stat >> pid >> name >> state >> parent) processes[pid] = {parent, name};
  }
  for (const auto& [pid, process] : processes) {
    const int init = process.first;
    if (process.second != program || processes.count(init) == 0) continue;
    const int bubblewrap = processes[init].first;
    if (processes.count(bubblewrap) == 0 || processes[bubblewrap].first != getpid()) continue;
    return kill(init, SIGKILL) == 0;
  }
  return false;
}

TEST_F(AgentTest, AProgramAsksTheModelAndWhatWasDrawnAndWrittenComesBack) {
  Serve([](const std::string& prompt) {
    return prompt.find("second") == std::string::npos ? "one" : "two";
  });
  const AgentOutcome outcome = Run(R"py(
talk = [{"role": "user", "content": "first"}]
talk.append({"role": "assistant", "content": Ask(talk)})
talk.append({"role": "user", "content": "second"})
Write("out.txt", talk[1]["content"] + " " + Ask(talk))
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_SUBMITTED) << outcome.words;
  EXPECT_EQ(FileOf(outcome, "out.txt"), "one two");
  ASSERT_EQ(outcome.branches.size(), 1u);
  const v1::Trajectory& branch = outcome.branches[0];
  ASSERT_EQ(branch.turns_size(), 2);
  EXPECT_THAT(TextOf(branch.prompt_ids()), HasSubstr("first"));
  EXPECT_EQ(TextOf(branch.turns(0).ids()), "one<|im_end|>");
  EXPECT_THAT(TextOf(branch.turns(0).observation_ids()), HasSubstr("second"));
  EXPECT_EQ(TextOf(branch.turns(1).ids()), "two<|im_end|>");
  EXPECT_EQ(branch.turns(0).logprobs_size(), branch.turns(0).ids_size());
}

TEST_F(AgentTest, ItHasItsWorkspaceItsTaskAndAnEmptyHomeOfItsOwn) {
  Serve("yes");
  v1::File& file = *lease_.mutable_task()->add_files();
  file.set_path("src/a.txt"), file.set_content("given"), file.set_has_content(true);
  lease_.mutable_task()->set_answer_file("f.c");
  lease_.mutable_task()->mutable_grading()->add_sources("secret.c");
  AgentProgram program = Python(R"py(
Ask("hello")
home = os.environ["HOME"]
Write("seen.json", json.dumps({"files": open("src/a.txt").read(), "folder": os.getcwd(),
  "home": os.listdir(home), "mode": os.stat(home).st_mode & 0o777, "said": sys.argv[1],
  "task": json.load(open(os.environ["TIDEMILL_TASK"])), "user": os.path.expanduser("~agent"),
  "own": os.environ["OWN"], "settings": open(home + "/.agent/settings").read()}))
)py");
  program.command.push_back("{prompt} in {workspace} as {model}");
  program.environment.push_back("OWN={url}/v1");
  program.files[".agent/settings"] = "{\"key\": \"{key}\"}";
  const AgentOutcome outcome = Run(program);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const auto seen = nlohmann::json::parse(FileOf(outcome, "seen.json"), nullptr, false);
  ASSERT_TRUE(seen.is_object()) << outcome.words;
  EXPECT_EQ(seen["files"], "given");
  EXPECT_EQ(seen["folder"], "/box/workspace");
  EXPECT_EQ(seen["home"], nlohmann::json::array({".agent"}));
  EXPECT_EQ(seen["mode"], 0700);
  EXPECT_EQ(seen["user"], "/box/home");
  EXPECT_THAT(seen["said"].get<std::string>(), HasSubstr("Say something"));
  EXPECT_THAT(seen["said"].get<std::string>(), HasSubstr("in /workspace as policy"));
  EXPECT_EQ(seen["task"]["answer_file"], "f.c");
  EXPECT_EQ(seen["task"]["max_turns"], 8);
  EXPECT_FALSE(seen["task"].contains("grading"));
  EXPECT_THAT(seen["own"].get<std::string>(), HasSubstr("http://127.0.0.1:"));
  EXPECT_THAT(seen["settings"].get<std::string>(), HasSubstr("{\"key\": \"tmk-"));
}

TEST_F(AgentTest, ItReachesTheGatewayWithItsKeyAndNothingElse) {
  Serve("yes");
  // As the run's API, or anything else on the machine's loopback.
  HttpHandlers handlers;
  handlers.answer = [](const HttpRequest&) { return TextResponse(200, "ESCAPED"); };
  const auto outside = HttpServer::Start({}, std::move(handlers));
  ASSERT_TRUE(outside.ok());
  const std::string url = (*outside)->url(), gateway = server_->gateway().url();
  AgentProgram program = Python(R"py(
import socket
out = {"asked": Ask("hello"), "models": Call("/v1/models")[0]}
out["no key"] = Call("/v1/models", key="")[0]
out["other key"] = Call("/v1/models", key="tmk-" + "0" * 64)[0]
out["metrics"] = Call("/metrics")[0]
out["outside"] = Call("/", base=sys.argv[1].rstrip("/"))
out["gateway"] = Call("/v1/models", base=sys.argv[2].rstrip("/"))
def Tried(call):
    try: call(); return "ESCAPED"
    except OSError as error: return type(error).__name__
def Connect(family, place, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as s: s.settimeout(5); s.connect(place)
out["machine"] = Tried(lambda: Connect(socket.AF_INET, ("192.0.2.1", 80)))
out["datagram"] = Tried(lambda: Connect(socket.AF_INET, ("192.0.2.1", 53), socket.SOCK_DGRAM))
out["vsock"] = Tried(lambda: Connect(40, (2, 80)))
out["packet"] = Tried(lambda: socket.socket(17, socket.SOCK_RAW).close())
out["listen"] = Tried(lambda: socket.socket().bind(("127.0.0.1", int(os.environ["PORT"]))))
out["interfaces"] = [name for _, name in socket.if_nameindex()]
Write("out.json", json.dumps(out))
)py");
  program.environment.push_back("PORT=47017");
  program.command.insert(program.command.end(), {url, gateway});
  const AgentOutcome outcome = Run(program);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const auto out = nlohmann::json::parse(FileOf(outcome, "out.json"), nullptr, false);
  ASSERT_TRUE(out.is_object()) << outcome.words;
  EXPECT_EQ(out["asked"], "yes");
  EXPECT_EQ(out["models"], 200);
  EXPECT_EQ(out["no key"], 401);
  EXPECT_EQ(out["other key"], 401);
  EXPECT_EQ(out["metrics"], 401);
  EXPECT_EQ(out["outside"][0], 0) << out["outside"];
  EXPECT_EQ(out["gateway"][0], 0) << out["gateway"];
  for (const char* name : {"machine", "datagram", "vsock", "packet", "listen"}) {
    EXPECT_NE(out[name], "ESCAPED") << name;
  }
  EXPECT_EQ(out["interfaces"], nlohmann::json::array({"lo"}));
  EXPECT_EQ((*outside)->stats().requests, 0u);
}

TEST_F(AgentTest, TwoBoxesDoNotReachEachOther) {
  Serve("yes");
  AgentProgram program = Python(R"py(
import socket, time
port = 50123
server = socket.socket()
try:
    server.bind(("127.0.0.1", port)); server.listen()
    Write("bound.txt", "bound")
except OSError as error: Write("bound.txt", error)
server.settimeout(1)
for _ in range(40):
    with socket.socket() as other: met = other.connect_ex(("127.0.0.1", port)) == 0
came = 0
try:
    while True: server.accept(); came += 1
except OSError: pass
Write("met.txt", came)
)py");
  Start(program, 1), Start(program, 2);
  for (int i = 0; i < 2; ++i) {
    const AgentOutcome outcome = Finish();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    EXPECT_EQ(FileOf(outcome, "bound.txt"), "bound");  // each has the port of its own
    EXPECT_EQ(FileOf(outcome, "met.txt"), "40");       // and is met by itself alone
  }
}

TEST_F(AgentTest, TheSamplingIsTheRunsUnlessTheProgramMayChoose) {
  Serve("yes");
  const std::string script = "Ask('hello', temperature=0, top_p=0.5, max_tokens=3)";
  AgentOutcome outcome = Run(script);
  ASSERT_EQ(outcome.branches.size(), 1u) << outcome.words;
  EXPECT_EQ(outcome.branches[0].sampling().temperature(), 1);
  EXPECT_EQ(outcome.branches[0].sampling().max_turn_tokens(), 3u);
  runner_.reset();
  AgentProgram program = Python(script);
  program.own_sampling = true;
  outcome = Run(program);
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.branches.size(), 0u);  // nothing to learn from
}

TEST_F(AgentTest, OutOfTurnsIsAResultAndAProgramThatGoesOnIsEnded) {
  Serve("yes");
  lease_.set_max_turns(2);
  const AgentOutcome outcome = Run(R"py(
import time
answers = [Ask("a"), Ask("b"), Ask("c")]
Write("out.txt", answers)
time.sleep(600)
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_MAX_TURNS);
  EXPECT_EQ(FileOf(outcome, "out.txt"), "['yes', 'yes', 400]");
}

TEST_F(AgentTest, WhatAnAgentAsksWrongIsNeverOurFailure) {
  Serve("yes");
  const AgentOutcome outcome = Run(R"py(
def With(headers):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], **headers})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer: return answer.status
    except urllib.error.HTTPError as error: return error.code
out = [With({"x-policy-version": "1000"}), With({"x-policy-version": "newest"}),
       With({"x-tidemill-session": "another"}), With({"x-tidemill-session-end": "1"})]
out.append(Call("/v1/completions", {"model": "m", "prompt": [999999]})[0])
out.append(Ask("hi", tool_choice="required"))
out.append(Call("/live/delete", {"session": 1})[0])
Write("out.txt", out + [Ask("and still here")])
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(FileOf(outcome, "out.txt"), "[200, 200, 200, 200, 400, 400, 404, 'yes']");
  EXPECT_EQ(outcome.end, v1::EPISODE_END_SUBMITTED) << outcome.words;
  EXPECT_FALSE(outcome.branches.empty());
}

TEST_F(AgentTest, WhatAnotherEpisodeAskedIsNotFoundOutFromTheCache) {
  Serve("an answer that is long enough to fill a page of the cache");
  const std::string ask = R"py(
def Cached():
    body = {"model": "m", "messages": [{"role": "user", "content": "a secret of many words " * 8}]}
    status, answer = Call("/v1/chat/completions", body)
    return json.loads(answer)["usage"]["prompt_tokens_details"]["cached_tokens"]
Write("out.txt", [Cached(), Cached()])
)py";
  EXPECT_EQ(FileOf(Run(ask), "out.txt"), "[0, 0]");
  const uint64_t reused = server_->engine().Stats().reused_tokens;
  EXPECT_EQ(FileOf(Run(ask), "out.txt"), "[0, 0]");
  EXPECT_GT(server_->engine().Stats().reused_tokens, 2 * reused)
      << "the work is shared all the same";
}

TEST_F(AgentTest, AnswersCountAsTurnsBeforeTheyAreDrawn) {
  Serve("yes");
  lease_.set_max_turns(3);
  const AgentOutcome outcome = Run(R"py(
def Complete(prompts, n=1):
    return Call("/v1/completions", {"model": "m", "prompt": prompts, "n": n})[0]
Write("out.txt", [Complete(["a"] * 128, 16), Complete(["a"] * 2, 2), Ask("a", n=4),
                  Complete(["a"] * 3), Ask("b")])
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_MAX_TURNS);
  EXPECT_EQ(FileOf(outcome, "out.txt"), "[400, 400, 400, 200, 400]");
  EXPECT_EQ(server_->engine().Stats().running_live, 0);
}

TEST_F(AgentTest, AnAnswerThatIsHungUpOnIsATurn) {
  Serve([](const std::string&) { return std::string(60, 'x'); }, milliseconds(2));
  lease_.set_max_turns(2);
  const AgentOutcome outcome = Run(R"py(
import time
def Leave(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(), {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    with urllib.request.urlopen(request, timeout=30) as answer: answer.read(200)
Leave("a"), Leave("b")
out = []
for i in range(10):
    out.append(Ask("c"))
    time.sleep(0.05)
Write("out.txt", set(out))
)py");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_MAX_TURNS);
  EXPECT_EQ(FileOf(outcome, "out.txt"), "{400}");
}

TEST_F(AgentTest, ACrashALimitAndAMissingProgramAreResults) {
  Serve("yes");
  AgentOutcome outcome = Run("Ask('hello'); Write('out.txt', 'kept'); os.abort()");
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_FAILED);
  EXPECT_EQ(FileOf(outcome, "out.txt"), "kept");
  EXPECT_EQ(outcome.branches.size(), 1u);

  runner_.reset();
  AgentProgram program = Python("Write('out.txt', 'kept')\nwhile True: pass");
  program.limits.cpu = std::chrono::seconds(1);
  outcome = Run(program);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_FAILED);
  EXPECT_EQ(FileOf(outcome, "out.txt"), "kept") << outcome.words;

  runner_.reset();
  program.command = {"no-such-agent"};
  outcome = Run(program);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_FAILED);
  EXPECT_THAT(outcome.words, HasSubstr("cannot run no-such-agent"));
}

TEST_F(AgentTest, ATimeoutForWhichTheMachineHadNoTimeCountsAfterASecondAttempt) {
  Serve("yes");
  cores_ = 64;  // so that two of them look busy
  AgentProgram program = Python("");
  program.command = {"/bin/sh", "-c",
                     "echo kept > out.txt; i=0; while [ $i -lt 32 ]; do i=$((i + 1));"
                     " (while :; do :; done) & done; while :; do :; done"};
  program.limits.wall = milliseconds(800);
  program.limits.cpu = std::chrono::seconds(60);
  const AgentOutcome outcome = Run(program);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_FAILED) << outcome.words;
  EXPECT_EQ(FileOf(outcome, "out.txt"), "kept\n");
  const BoxPool::Stats boxes = runner_->boxes();
  EXPECT_EQ(boxes.warm + boxes.cold, 2u) << "it did not begin again";
}

TEST_F(AgentTest, AMountTheBoxesUsersCannotReachIsNamedWithTheCure) {
  if (geteuid() != 0) GTEST_SKIP() << "only boxes of root have users of their own";
  Serve("yes");
  namespace fs = std::filesystem;
  const fs::path closed = fs::path(dir_.path()) / "closed", inside = closed / "tool";
  fs::create_directories(inside);
  fs::permissions(dir_.path(), fs::perms(0755));
  const auto failure = [&] {
    AgentRunnerOptions options;
    options.program = Python("");
    options.program.mounts = {{inside.string(), "/opt/tool"}};
    auto runner = AgentRunner::Create(options, server_->gateway(), *recorder_, nullptr, clock_);
    return runner.ok() ? std::string() : runner.status().message();
  };
  EXPECT_EQ(failure(), "");
  fs::permissions(closed, fs::perms(0700));
  EXPECT_THAT(failure(), HasSubstr("mounted as /opt/tool: " + closed.string() +
                                   " is closed to them. chmod o+x " + closed.string()));
  fs::permissions(closed, fs::perms(0755));
  fs::permissions(inside, fs::perms(0700));
  EXPECT_THAT(failure(), HasSubstr("chmod -R o+rX " + inside.string()));
}

TEST_F(AgentTest, ALastFileOrIdlenessEndsAProgramThatStays) {
  Serve("yes");
  AgentProgram program = Python("import time; Ask('hi'); Write('done', 'x'); time.sleep(600)");
  program.last_file = "done";
  AgentOutcome outcome = Run(program);
  EXPECT_EQ(outcome.end, v1::EPISODE_END_SUBMITTED) << outcome.words;
  EXPECT_EQ(FileOf(outcome, "done"), "x");
  runner_.reset();
  program.last_file.clear();
  program.idle = milliseconds(200);
  outcome = Run(program);
  EXPECT_EQ(outcome.end, v1::EPISODE_END_SUBMITTED) << outcome.words;
}

TEST_F(AgentTest, ABoxThatIsLostIsOursAndAnEpisodeThatIsGivenUpEnds) {
  Serve("yes");
  Start(Python("import time; Ask('hi'); time.sleep(600)"));
  while (!KillBoxWith("(python3)")) std::this_thread::yield();
  EXPECT_EQ(Finish().status.code(), Code::kUnavailable);
  Start(Python(""), 2);
  runner_->Cancel(2);
  EXPECT_EQ(Finish().status.code(), Code::kUnavailable);
}

}  // namespace
}  // namespace tidemill
