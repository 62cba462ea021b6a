// Runs of the program whose engine is servers: they speak as vLLM and SGLang do and draw from the
// weights that they were really given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "model/model_config.h"
#include "testing/scripted_host.h"
#include "tests/drawn_policy.h"
#include "tests/line_fixture.h"

namespace tidemill {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RemoteRunTest : public LineTest {
 protected:
  static std::unique_ptr<ScriptedHost> Server(
      ScriptedKind kind = ScriptedKind::kVllm,
      std::shared_ptr<ScriptedModel> policy = std::make_shared<DrawnPolicy>()) {
    const ModelConfig model = ReadModelConfig(folder_ + "/model").value();
    ScriptedInference::Options options;
    options.kind = kind;
    options.vocabulary = static_cast<int32_t>(model.vocab_size);
    options.max_context = static_cast<int32_t>(model.max_position_embeddings);
    options.model = std::move(policy);
    return std::make_unique<ScriptedHost>(options);
  }
  static std::string Urls(const std::vector<ScriptedHost*>& hosts,
                          const std::string& backend = "vllm") {
    std::string urls;
    for (const ScriptedHost* host : hosts) {
      urls += (urls.empty() ? "" : ",") + ("http://" + host->url().Authority());
    }
    return " --set engine.backend=" + backend + " --set engine.urls=" + urls + " ";
  }
  // Column `name` of each step of a run.
  static std::vector<double> Steps(const std::string& run, const std::string& name) {
    std::vector<double> values;
    std::ifstream metrics(folder_ + "/runs/" + run + "/metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const json entry = json::parse(line);
      if (entry.value("kind", "") == "step") values.push_back(entry.value(name, -1.0));
    }
    return values;
  }
};

TEST_F(RemoteRunTest, ServersGenerateWhatIsTrainedAndGetEveryVersion) {
  const auto first = Server(), second = Server();
  const ProcessOutput result = RunTidemill(
      Train("served", Urls({first.get(), second.get()}) + "--set run.steps=4 --set tasks.eval=" +
                          folder_ + "/eval.jsonl --set eval.samples=1"),
      "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0);
  const json summary = Summary(result);
  EXPECT_EQ(summary["status"], "done");
  EXPECT_EQ(summary["steps"], 4);
  EXPECT_EQ(summary["lost"], 0);
  for (ScriptedHost* host : {first.get(), second.get()}) {
    EXPECT_GT(host->With([](ScriptedInference& server) { return server.drawn(); }), 0u);
    // The first version, and newer ones as they came.
    EXPECT_GE(host->With([](ScriptedInference& server) { return server.loads(); }), 2u);
  }
  // Tokens are what the weights of their version draw: the learner's own log-probabilities of those
  // that its newest version drew are the servers'.
  const std::vector<double> mismatch = Steps("served", "mismatch_fresh");
  ASSERT_EQ(mismatch.size(), 4u);
  for (const double m : mismatch) EXPECT_LT(m, 1e-4);
  // No version is left behind on the disk.
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/runs/served/servers"));
}

TEST_F(RemoteRunTest, AnotherKindOfServerServesTheSame) {
  const auto server = Server(ScriptedKind::kSglang);
  const std::string urls = Urls({server.get()}, "sglang");
  const ProcessOutput refused = RunTidemill(Train("sglang_keep", urls + "--set run.steps=1"));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("rollout.cache_on_swap"));
  const ProcessOutput result =
      RunTidemill(Train("sglang", urls + "--set run.steps=2 --set rollout.cache_on_swap=rebuild"),
                  "2>/dev/null");
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_EQ(Summary(result)["lost"], 0);
  for (const double m : Steps("sglang", "mismatch_fresh")) EXPECT_LT(m, 1e-4);
}

TEST_F(RemoteRunTest, AServerThatDiesInARunCostsNoEpisode) {
  const auto first = Server(), second = Server();
  std::atomic<bool> over{false};
  std::thread killer([&] {
    // Between two tokens of turns under way, which end with the process.
    (void)Eventually([&] {
      return over || first->With([](ScriptedInference& server) {
        if (server.drawn() < 300 || server.running() == 0) return false;
        server.Restart();
        return true;
      });
    });
  });
  const ProcessOutput result = RunTidemill(
      Train("dying", Urls({first.get(), second.get()}) + "--set run.steps=4"), "2>/dev/null");
  over = true;
  killer.join();
  ASSERT_EQ(result.exit_code, 0);
  const json summary = Summary(result);
  EXPECT_EQ(summary["steps"], 4);
  EXPECT_EQ(summary["lost"], 0);
  EXPECT_EQ(summary["stale"], 0);
  for (const double m : Steps("dying", "mismatch_fresh")) EXPECT_LT(m, 1e-4);
}

// It takes updates and goes on as before: what the canary is for.
TEST_F(RemoteRunTest, AServerWithOtherWeightsThanItSaysServesNothing) {
  (void)Taught();
  const auto policy = std::make_shared<DrawnPolicy>();
  ASSERT_TRUE(policy->Load(folder_ + "/model"));
  const auto host = Server(ScriptedKind::kVllm, policy);
  host->With([](ScriptedInference& server) { return server.faults.label_only = true; });
  const ProcessOutput result = RunTidemill(
      "--log-level warn eval --json --set run.folder=" + folder_ + "/runs --model " + folder_ +
      "/taught --tasks " + folder_ +
      "/eval.jsonl --set model.protocol=compact --set engine.server_start=5s" + Urls({host.get()}));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("canary"));
}

TEST_F(RemoteRunTest, WhatServersCannotDoIsRefusedByTheKeyThatAsksForIt) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--set engine.backend=vllm", "engine.command"},
      {"--set engine.backend=vllm --set engine.urls=http://a:1 --set engine.versions=2",
       "engine.versions"},
      {"--set engine.urls=http://a:1", "engine.urls"},
      {"--set engine.backend=vllm --set engine.command=serve", "{port}"},
      {"--set engine.backend=vllm --set engine.urls=ftp://a", "engine.urls"}};
  for (const auto& [words, key] : wrong) {
    const ProcessOutput result = RunTidemill(Train("refused", words + " --set run.steps=1"));
    EXPECT_EQ(result.exit_code, 2) << words << result.output;
    EXPECT_THAT(result.output, HasSubstr(key)) << words;
    std::filesystem::remove_all(folder_ + "/runs/refused");
  }
}

}  // namespace
}  // namespace tidemill
