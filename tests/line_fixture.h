// Runs the program itself on a tiny policy and tiny tasks.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "store/run_reader.h"
#include "tests/program.h"

namespace tidemill {

class LineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    char name[] = "/tmp/tidemill-line-XXXXXX";
    folder_ = mkdtemp(name);
    MustRun("tasks generate --family cfunc --count 60 --seed 3 --difficulty 1,2 --out " + folder_ +
            "/train.jsonl");
    MustRun(
        "tasks generate --family cfunc --count 6 --seed 4 --split heldout --difficulty 1,2 --out " +
        folder_ + "/eval.jsonl");
    MakeTinyModel(folder_);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  // A tiny run; `more` adds to it.
  static std::string Train(const std::string& name, const std::string& more) {
    return "--log-level warn train --json --no-web --set run.folder=" + folder_ +
           "/runs --set run.name=" + name + " --set model.path=" + folder_ +
           "/model --set model.protocol=compact --set tasks.train=" + folder_ +
           "/train.jsonl --set rollout.group_size=4 --set rollout.groups_per_step=4 --set "
           "rollout.max_turn_tokens=8" +
           " --set rollout.max_turns=2 --set rollout.max_in_flight=64 --set "
           "replay.drop_zero_variance=false" +
           " --set learner.learning_rate=0.001 --set reward.weights.format=0.1 " + more;
  }
  // Words for a policy that ends its answers, which an untaught one hardly ever does.
  static std::string Taught() {
    const std::string demos = folder_ + "/demos.jsonl", model = folder_ + "/taught";
    if (!std::filesystem::exists(model)) {
      MustRun("tasks generate --family cfunc --count 300 --seed 5 --difficulty 1,2 --out " +
              folder_ + "/demonstrated.jsonl --with-solutions " + demos);
      MustRun("warmup " + demos + " --model " + folder_ + "/model --out " + model +
              " --max-steps 80 --batch-tokens 1024 --learning-rate 0.005 --evaluate-every 80 "
              "--patience 0");
    }
    return " --set model.path=" + model + " ";
  }
  static nlohmann::json Summary(const ProcessOutput& result) {
    nlohmann::json summary = nlohmann::json::parse(result.output, nullptr, false);
    EXPECT_TRUE(summary.is_object()) << result.output;
    return summary;
  }
  static std::unique_ptr<RunReader> Reader(const std::string& run) {
    return RunReader::Open(folder_ + "/runs/" + run + "/run.db").value();
  }

  inline static std::string folder_;
};

}  // namespace tidemill
