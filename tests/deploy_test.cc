// What is in deploy/ fits the program: YAML that parses, commands and options that exist, metrics
// that are served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <functional>
#include <regex>
#include <set>

#include "bus/redis/redis_bus.h"
#include "observe/process_metrics.h"
#include "observe/run_status.h"
#include "run/run.h"
#include "scale/autoscaler.h"
#include "testing/test_folders.h"
#include "tests/program.h"
#include "tools/box/box_pool.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

const fs::path kDeploy = SourceDir() + "/deploy";

std::vector<fs::path> YamlFiles() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kDeploy)) {
    const std::string extension = entry.path().extension();
    if (extension == ".yaml" || extension == ".yml") files.push_back(entry.path());
  }
  return files;
}

// Every sequence of words under `key` ("args", "command") of a document.
void FindWords(const YAML::Node& node, const std::string& key,
               const std::function<void(std::vector<std::string>)>& use) {
  if (node.IsMap()) {
    for (const auto& pair : node) {
      if (pair.first.as<std::string>("") == key && pair.second.IsSequence()) {
        use(pair.second.as<std::vector<std::string>>());
      }
      FindWords(pair.second, key, use);
    }
  } else if (node.IsSequence()) {
    for (const auto& item : node) FindWords(item, key, use);
  }
}

std::string Help(const std::string& command) {
  const ProcessOutput output = RunTidemill(command + " --help");
  EXPECT_EQ(output.exit_code, 0) << command;
  return output.output;
}

// "role TEXT:{learner,rollout,..} REQUIRED": the roles the program knows.
std::set<std::string> Roles(const std::string& help) {
  static const std::regex kList("role TEXT:\\{([a-z,]+)\\}"), kRole("[a-z]+");
  std::smatch list;
  if (!std::regex_search(help, list, kList)) return {};
  const std::string names = list[1];
  return {std::sregex_token_iterator(names.begin(), names.end(), kRole), {}};
}

// The names that loops and watchers serve; not those that come from a run's metrics.jsonl.
std::set<std::string> ServedNames() {
  Metrics metrics;
  AddProcessMetrics(metrics);
  metrics.AddSource([](MetricSink& sink) {
    SinkUsage({{.name = "tools"}}, sink);
    SinkBus({}, sink);
    SinkBoxes({}, sink);
    SinkCounters(ToolCounters(), sink);
    SinkCounters(RewardCounters(), sink);
    SinkCounters(RolloutCounters(), sink);
    SinkCounters(DispatcherCounters(), sink);
    SinkCounters(ReplayCounters(), sink);
    SinkCounters(LearnerCounters(), sink);
    SinkCounters(ScaleCounters(), sink);
    RunStatus status;
    status.workers.emplace_back();
    status.topics.emplace_back();
    SinkRunStatus(status, sink);
  });
  WatchRun("redis://127.0.0.1:1/0", "none", metrics);  // nobody answers there
  std::set<std::string> names;
  for (const auto& family : metrics.Collect()) names.insert(family.name);
  return names;
}

std::set<std::string> NamesIn(const std::string& text) {
  static const std::regex kName("tidemill_[a-z0-9_]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), kName), {}};
}

TEST(Deploy, EveryFileIsYaml) {
  ASSERT_GE(YamlFiles().size(), 10u);
  for (const fs::path& path : YamlFiles()) {
    EXPECT_NO_THROW({
      const auto documents = YAML::LoadAllFromFile(path);
      EXPECT_FALSE(documents.empty()) << path;
    }) << path;
  }
}

TEST(Deploy, EveryManifestIsNamedInTheKustomizationAndTheOtherWayRound) {
  const YAML::Node list = YAML::LoadFile(kDeploy / "kubernetes/kustomization.yaml")["resources"];
  std::set<std::string> named;
  for (const auto& item : list) named.insert(item.as<std::string>());
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(kDeploy / "kubernetes")) {
    if (entry.path().extension() == ".toml") continue;  // what fleet.yaml is made from
    there.insert(entry.path().filename());
    if (entry.path().filename() == "kustomization.yaml") continue;
    for (const YAML::Node& document : YAML::LoadAllFromFile(entry.path())) {
      EXPECT_TRUE(document["apiVersion"] && document["kind"] && document["metadata"]["name"])
          << entry.path();
    }
  }
  there.erase("kustomization.yaml");
  EXPECT_EQ(named, there);
}

TEST(Deploy, TheWorkersOnKubernetesAreWhatLaunchMakesOfTheFleetFile) {
  const ProcessOutput dry =
      RunProcess({"sh", "-c",
                  "cd " + SourceDir() + " && exec " + BinaryDir() +
                      "/tidemill launch --dry-run deploy/kubernetes/fleet.toml"},
                 std::chrono::seconds(60), size_t{1} << 20);
  ASSERT_EQ(dry.exit_code, 0) << dry.output;
  // Behind the line that says how it is applied.
  EXPECT_EQ(dry.output.substr(dry.output.find('\n') + 1), TextOf(kDeploy / "kubernetes/fleet.yaml"))
      << "tidemill launch --dry-run deploy/kubernetes/fleet.toml | tail -n +2 "
         ">deploy/kubernetes/fleet.yaml";
}

TEST(Deploy, EveryCommandAndOptionOfTheContainersExists) {
  std::map<std::string, std::string> help = {{"worker", Help("worker")}, {"scale", Help("scale")}};
  size_t commands = 0;
  const auto check = [&](const std::vector<std::string>& words) {
    ASSERT_FALSE(words.empty());
    const auto found = help.find(words[0]);
    if (found == help.end()) return;  // redis
    ++commands;
    for (const std::string& word : words) {
      if (word.rfind("--", 0) == 0) {
        EXPECT_THAT(found->second, testing::HasSubstr(word + " "));
      }
    }
    if (words[0] == "worker") {
      EXPECT_THAT(Roles(found->second), testing::Contains(words.at(1)));
    }
  };
  for (const fs::path& path : YamlFiles()) {
    for (const YAML::Node& document : YAML::LoadAllFromFile(path)) {
      FindWords(document, "args", check);
      FindWords(document, "command", check);
    }
  }
  EXPECT_EQ(commands, 10u) << "five in compose.yaml, five in kubernetes/";
}

TEST(Deploy, EveryMetricOfTheRulesAndTriggersIsServed) {
  const std::set<std::string> served = ServedNames();
  size_t checked = 0;
  for (const char* file : {"alerts.yml", "alerts_test.yml", "kubernetes/keda.yaml"}) {
    for (const std::string& name : NamesIn(TextOf(kDeploy / file))) {
      // These are columns of metrics.jsonl; tests/train_test.cc compares them with a run's.
      if (name.rfind("tidemill_step_", 0) == 0 || name.rfind("tidemill_run_", 0) == 0) continue;
      EXPECT_TRUE(served.count(name)) << file << ": " << name;
      ++checked;
    }
  }
  EXPECT_GE(checked, 12u);
}

TEST(Deploy, ThePageOnOperationsListsEveryMetricThatIsServed) {
  const std::string page = TextOf(SourceDir() + "/docs/operations.md");
  for (const std::string& name : ServedNames()) {
    EXPECT_THAT(page, testing::HasSubstr("`" + name)) << "docs/operations.md";
  }
}

TEST(Deploy, NamesAndUnitsFollowPrometheusConventions) {
  Metrics metrics;
  for (const std::string& name : ServedNames()) {
    EXPECT_TRUE(std::regex_match(name, std::regex("(tidemill|process)_[a-z0-9]+(_[a-z0-9]+)*")))
        << name;
    EXPECT_EQ(name.find("_ms"), std::string::npos) << name << ": seconds";
  }
}

TEST(Deploy, PromtoolAcceptsTheRulesAndTheyFireWhenTheyShould) {
  const ProcessOutput check =
      RunProcess({"promtool", "check", "rules", kDeploy / "alerts.yml"}, std::chrono::seconds(60));
  if (!check.started) GTEST_SKIP() << "no promtool here (Debian's package prometheus)";
  EXPECT_EQ(check.exit_code, 0) << check.output;
  const ProcessOutput fire = RunProcess({"promtool", "test", "rules", kDeploy / "alerts_test.yml"},
                                        std::chrono::seconds(60));
  EXPECT_EQ(fire.exit_code, 0) << fire.output;
  const ProcessOutput config = RunProcess(
      {"promtool", "check", "config", kDeploy / "prometheus.yml"}, std::chrono::seconds(60));
  EXPECT_EQ(config.exit_code, 0) << config.output;
}

}  // namespace
}  // namespace tidemill
