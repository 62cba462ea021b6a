// No process the program starts inherits a descriptor, while everything that holds one is on: the
// dashboard with a client, TensorBoard, the database, an external scorer, an authenticated Redis. A
// descriptor that whoever started the program left open does not arrive either.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "bus/standard_topics.h"
#include "core/topics.h"
#include "core/version.h"
#include "proto/tidemill.pb.h"
#include "testing/http_client.h"
#include "testing/redis_test_kit.h"
#include "tests/program.h"
#include "tools/tool_table.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kList = "ls /proc/self/fd | tr '\\n' ' '";
constexpr const char* kListed = "0 1 2 3 ";  // the last is the folder itself
constexpr const char* kPlanted = " 9</ 8</etc/passwd";

// Descriptors of a process that one it starts would inherit, by number, with what they are.
std::map<int, std::string> Inheritable(pid_t pid) {
  std::map<int, std::string> found;
  std::error_code ignored;
  const std::string process = "/proc/" + std::to_string(pid);
  for (const auto& entry : fs::directory_iterator(process + "/fdinfo", ignored)) {
    const std::string number = entry.path().filename();
    std::ifstream info(entry.path());
    std::string word, flags;
    while (info >> word && word != "flags:") {
    }
    if (!(info >> flags) || std::stoi(number) <= 2) continue;
    if ((std::stoul(flags, nullptr, 8) & O_CLOEXEC) != 0) continue;
    found[std::stoi(number)] = fs::read_symlink(process + "/fd/" + number, ignored).string();
  }
  return found;
}

// Those that are there to stay.
std::map<int, std::string> StaysInheritable(pid_t pid) {
  std::map<int, std::string> first = Inheritable(pid), both;
  for (const auto& [fd, what] : Inheritable(pid)) {
    if (first.count(fd) != 0 && first[fd] == what) both[fd] = what;
  }
  return both;
}

// Tasks whose hidden test passes where a graded program has the standard streams and no more.
void WriteTasks(const std::string& from, const std::string& to) {
  std::ifstream in(from);
  std::ofstream out(to);
  for (std::string line; std::getline(in, line);) {
    json task = json::parse(line);
    json grading = {{"sources", task["grading"]["sources"]},
                    {"run", {"/bin/sh", "-c", kList}},
                    {"cases", {{{"input", "1"}, {"expected", kListed}}}}};
    task["grading"] = grading;
    task.erase("examples");
    out << task.dump() << "\n";
  }
}

TEST(Descriptors, NothingOfATrainingRunIsInherited) {
  const TemporaryDirectory folder;
  MustRun("tasks generate --family cfunc --count 20 --seed 3 --difficulty 1 --out " +
          folder.path() + "/generated.jsonl");
  WriteTasks(folder / "generated.jsonl", folder / "train.jsonl");
  MakeTinyModel(folder.path());
  std::ofstream(folder / "scorer.sh")
      << "cat > /dev/null\n"
      << kList << " > " << folder.path() << "/scorer\necho '{\"score\": 1}'\n";
  const std::string set = " --set ";
  BackgroundProgram train(
      "--log-level warn train --set run.folder=" + folder.path() + "/runs --set run.name=all" +
          set + "model.path=" + folder.path() +
          "/model --set model.protocol=compact --set tasks.train=" + folder.path() +
          "/train.jsonl --set rollout.group_size=4 --set rollout.groups_per_step=2" +
          " --set rollout.max_turn_tokens=8 --set rollout.max_turns=1 --set run.steps=3 --set "
          "learner.ranks=2" +
          " --set replay.drop_zero_variance=false --set dashboard.tensorboard=true --set "
          "dashboard.port=0" +
          " --set 'reward.weights={tests=1.0,command=1.0}' --set 'reward.command=[\"/bin/sh\",\"" +
          folder.path() + "/scorer.sh\"]'" + kPlanted,
      {folder / "log"});
  static const std::regex kAddress("dashboard: http://127.0.0.1:(\\d+)/");
  std::smatch match;
  std::string said;
  ASSERT_TRUE(Eventually(
      [&] {
        said = train.Log();
        return std::regex_search(said, match, kAddress);
      },
      std::chrono::minutes(2)))
      << said;
  RawClient client(static_cast<uint16_t>(std::stoi(match[1])));
  client.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::map<int, std::string> inheritable;
  std::optional<int> ended;
  EXPECT_TRUE(Eventually(
      [&] {
        if (inheritable.empty()) inheritable = StaysInheritable(train.pid());
        ended = train.Ended();
        return ended.has_value();
      },
      std::chrono::minutes(2)));
  EXPECT_EQ(ended, 0) << train.Log();
  EXPECT_TRUE(inheritable.empty()) << testing::PrintToString(inheritable);
  EXPECT_EQ(TextOf(folder / "scorer"), kListed) << "an external scorer";
  const ProcessOutput shown = RunTidemill(
      "runs episodes all --folder " + folder.path() + "/runs --json --newest 100", "2>/dev/null");
  const json episodes = json::parse(shown.output, nullptr, false);
  ASSERT_TRUE(episodes.is_object()) << shown.output;
  int scored = 0;
  for (const json& episode : episodes["episodes"]) {
    if (episode["reward"].is_null()) continue;  // The run ended before its verdict came.
    EXPECT_EQ(episode["reward"], 2) << "a grading box: " << episode.dump();
    ++scored;
  }
  EXPECT_GE(scored, 3 * 2 * 4) << "what three steps were trained on";
}

TEST(Descriptors, NothingOfAToolsWorkerOnAnAuthenticatedRedisIsInherited) {
  const TemporaryDirectory folder;
  RedisTestServer server;
  server.Do({"SET", "{test}:sheet",
             R"({"run":"test","program":"","messages":)" + std::to_string(kMessagesVersion) +
                 R"(,"host":"h","shm_domain":"d","pid":1,"version":1,"incarnation":1,)"
                 R"("shm":"","weights_folder":"/nowhere","config":""})"});
  server.Do({"CONFIG", "SET", "requirepass", "secret"});
  const std::string url = "redis://:secret@127.0.0.1:" + std::to_string(server.port()) + "/0";
  auto bus = Connect(server, [&](RedisBusOptions& options) { options.url = url; });
  ASSERT_NE(bus, nullptr);
  ASSERT_TRUE(OpenStandardTopics(*bus, {}).ok());
  ASSERT_TRUE(bus->Open("inbox.test.reward", {.lease = kHour}).ok());
  BackgroundProgram worker("--log-level warn worker tools --bus " + url + " --run test" + kPlanted,
                           {folder / "log"});
  for (const char* tool : {"grade", "run_tests"}) {
    v1::ToolRequest request;
    request.set_request_id(tool);
    request.mutable_episode()->set_task("list");
    request.mutable_episode()->set_group(1);
    request.mutable_episode()->set_attempt(1);
    request.set_tool(tool);
    request.set_arguments_json("{}");
    request.set_reply_to("inbox.test.reward");
    v1::Grading& grading = *request.mutable_grading();
    for (const char* word : {"/bin/sh", "-c", kList}) grading.add_run(word);
    v1::TestCase& test = *grading.add_cases();
    test.set_input("1");
    test.set_expected(kListed);
    ASSERT_TRUE(
        bus->PublishRequest(ToolTopic(tool), "inbox.test.reward", request.SerializeAsString())
            .ok());
  }
  for (const Lease& lease : Take(*bus, "inbox.test.reward", 2)) {
    v1::ToolResult result;
    ASSERT_TRUE(result.ParseFromString(lease.body));
    EXPECT_EQ(result.tests_passed(), 1u) << result.tool() << ": " << result.text();
  }
  const std::map<int, std::string> inheritable = StaysInheritable(worker.pid());
  EXPECT_TRUE(inheritable.empty()) << testing::PrintToString(inheritable);
}

TEST(Descriptors, NothingIsInheritedByASandboxedCommand) {
  const ProcessOutput result =
      RunTidemill("sandbox run -- ls /proc/self/fd", std::string("2>/dev/null") + kPlanted);
  EXPECT_EQ(result.output, "0\n1\n2\n3\n");
}

}  // namespace
}  // namespace tidemill
