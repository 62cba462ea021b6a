// `tidemill model` as a person or a script starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/test_folders.h"
#include "tests/program.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

std::string Golden(const std::string& model) {
  const char* given = std::getenv("TIDEMILL_GOLDEN");
  return (given != nullptr ? given : SourceDir() + "/tests/golden") + "/" + model;
}

ProcessOutput Model(const std::string& arguments, const std::string& redirect = "2>&1") {
  return RunTidemill("model " + arguments, redirect);
}

nlohmann::json ModelJson(const std::string& arguments) {
  const ProcessOutput result = Model(arguments + " --json", "2>/dev/null");
  EXPECT_EQ(result.exit_code, 0) << arguments;
  return nlohmann::json::parse(result.output, nullptr, false);
}

class ModelProgram : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  const std::string dir_ = directory_.path();
};

TEST_F(ModelProgram, ScoresEveryTokenAfterTheFirst) {
  const auto report = ModelJson("score --model " + Golden("llama-tiny") + " --ids 5,6,7,8");
  EXPECT_EQ(report["ids"], nlohmann::json({5, 6, 7, 8}));
  ASSERT_EQ(report["logprobs"].size(), 3u);
  for (const auto& logprob : report["logprobs"]) EXPECT_LT(logprob.get<double>(), 0);
}

TEST_F(ModelProgram, WhatItGeneratesScoresTheSame) {
  const std::string model = " --model " + Golden("qwen2-tiny");
  const auto generated =
      ModelJson("generate" + model + " --ids 5,6,7 --max-tokens 6 --seed 3 --ignore-eos");
  EXPECT_EQ(generated["finish"], "length");
  ASSERT_EQ(generated["ids"].size(), 6u);
  std::string all = "5,6,7";
  for (const auto& id : generated["ids"]) all += "," + std::to_string(id.get<int>());
  const auto scored = ModelJson("score" + model + " --ids " + all);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(generated["logprobs"][i].get<double>(), scored["logprobs"][2 + i].get<double>(),
                1e-4);
  }
}

TEST_F(ModelProgram, AMergedAdapterScoresAsTheAdapterDoes) {
  const std::string model = Golden("qwen3-tiny");
  const auto merged = ModelJson("merge --model " + model + " --adapter " + model + "/lora --out " +
                                dir_ + "/merged");
  EXPECT_GT(merged["parameters"].get<int64_t>(), 0);
  const auto with =
      ModelJson("score --model " + model + " --adapter " + model + "/lora --ids 9,8,7");
  const auto without = ModelJson("score --model " + model + " --ids 9,8,7");
  const auto after = ModelJson("score --model " + dir_ + "/merged --ids 9,8,7");
  EXPECT_NEAR(after["logprobs"][0].get<double>(), with["logprobs"][0].get<double>(), 1e-4);
  EXPECT_GT(std::abs(after["logprobs"][0].get<double>() - without["logprobs"][0].get<double>()),
            1e-4);
}

TEST_F(ModelProgram, ANewModelSpeaksAtOnceAndIsNotOverwritten) {
  const std::string make = "new --config " + Golden("llama-tiny") + "/config.json --seed 4 --out " +
                           dir_ + "/new --tokenizer " + Golden("llama-tiny");
  ModelJson(make);
  const auto report =
      ModelJson("generate --model " + dir_ + "/new --prompt hello --max-tokens 4 --greedy");
  EXPECT_GE(report["ids"].size(), 1u);
  EXPECT_EQ(Model(make).exit_code, 1);
}

TEST_F(ModelProgram, WrongWordsAndMissingFilesAreNamed) {
  const std::string model = " --model " + Golden("llama-tiny");
  EXPECT_EQ(Model("generate" + model).exit_code, 2);
  EXPECT_EQ(Model("generate" + model + " --ids 1 --prompt x").exit_code, 2);
  EXPECT_EQ(Model("score" + model + " --ids 1").exit_code, 2);
  const ProcessOutput outside = Model("score" + model + " --ids 1,100000");
  EXPECT_EQ(outside.exit_code, 2);
  EXPECT_THAT(outside.output, HasSubstr("100000"));
  const ProcessOutput missing = Model("score --model /nonexistent --ids 1,2");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output, HasSubstr("/nonexistent"));
}

TEST_F(ModelProgram, RendersAConversationWithATemplateAndSaysWhyNot) {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  };
  const std::string chat =
      write("chat.json", R"({"messages": [{"role": "user", "content": "Hi"}]})");
  const std::string jinja =
      write("t.jinja",
            "{{ bos_token }}{% for m in messages %}{{ m.content }} {% endfor %}"
            "{{ strftime_now('%d %b') }}\n\n");
  const ProcessOutput text =
      Model("render " + chat + " --template " + jinja + " --bos '<s>' --now 2025-03-14T09:26:53");
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(text.output, "<s>Hi 14 Mar\n");
  const auto report = ModelJson("render " + chat + " --template " + jinja);
  EXPECT_EQ(report["outside"], nlohmann::json::parse("[[0, 2]]"));
  EXPECT_FALSE(report.contains("ids"));

  const std::string strict = write("strict.jinja", "{{ raise_exception('only one turn') }}");
  const ProcessOutput refused = Model("render " + chat + " --template " + strict);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("only one turn"));
  EXPECT_EQ(Model("render " + chat).exit_code, 2);
  EXPECT_EQ(Model("render " + chat + " --template " + jinja + " --now today").exit_code, 2);
  EXPECT_EQ(Model("render " + jinja + " --template " + jinja).exit_code, 2);
}

}  // namespace
}  // namespace tidemill
