#include "judge/judge_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/random.h"
#include "judge/http_judge_port.h"
#include "testbeds/judge_cases.h"
#include "testing/scripted_endpoint.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

JudgeCase CaseOf(const std::string& label, const std::string& kind = "plain") {
  return ParseJudgeCase("{\"task\": \"next_state\", \"label\": \"" + label + "\", \"kind\": \"" +
                        kind + "\", \"turn\": \"t\", \"next\": \"n\"}")
      .value();
}

v1::JudgeAnswer AnswerOf(double value, const std::string& word, double probability) {
  v1::JudgeAnswer answer;
  answer.set_available(true);
  v1::Judgement& judgement = *answer.add_judgements();
  judgement.set_value(value);
  v1::JudgeVote& vote = *judgement.add_votes();
  vote.set_valid(true), vote.set_value(value), vote.set_reason(word);
  vote.set_probability(probability);
  return answer;
}

TEST(JudgeCases, NameTheLineAndTheFieldThatIsWrong) {
  TemporaryDirectory folder;
  const auto why = [&](const std::string& line) {
    std::ofstream(folder / "c.jsonl") << "{\"task\": \"outcome\", \"label\": \"yes\"}\n" << line;
    return ReadJudgeCases(folder / "c.jsonl").status().message();
  };
  EXPECT_THAT(why("{\"task\": \"next_state\", \"label\": \"yes\"}"),
              HasSubstr("c.jsonl:2: \"label\" of the task next_state must be one of good, bad, "
                        "neutral, got \"yes\""));
  EXPECT_THAT(why("{\"task\": \"other\"}"), HasSubstr("unknown task \"other\""));
  EXPECT_THAT(why("[]"), HasSubstr("one JSON object"));
  EXPECT_THAT(why("{\"task\": \"process\", \"label\": \"good\", \"next\": 3}"),
              HasSubstr("\"next\" must be a text"));
}

// The figures against their definitions.
TEST(JudgeCheck, ComputesItsFiguresAsTheyAreDefined) {
  Random random(5);
  std::vector<JudgeCase> cases;
  std::vector<v1::JudgeAnswer> answers;
  const std::vector<std::string> words = {"good", "bad", "neutral"};
  std::vector<double> values;
  double sure_sum[10] = {}, right_sum[10] = {};
  uint64_t right = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string label = words[random.Below(3)];
    const std::string word = random.Chance(0.7) ? label : words[random.Below(3)];
    const double sure = 0.34 + 0.65 * random.Uniform();
    const double value = std::round(10 * ((word == "good" ? 1 : -1) * sure)) / 10;
    cases.push_back(CaseOf(label));
    answers.push_back(AnswerOf(value, word, sure));
    values.push_back(value);
    right += word == label ? 1 : 0;
    sure_sum[static_cast<int>(sure * 10)] += sure;
    right_sum[static_cast<int>(sure * 10)] += word == label ? 1 : 0;
  }
  double wins = 0, pairs = 0, error = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    for (size_t j = 0; j < cases.size(); ++j) {
      if (cases[i].label != "good" || cases[j].label == "good") continue;
      ++pairs;
      wins += values[i] > values[j] ? 1 : values[i] == values[j] ? 0.5 : 0;
    }
  }
  for (int bin = 0; bin < 10; ++bin) error += std::abs(sure_sum[bin] - right_sum[bin]) / 400;
  answers.emplace_back();  // one that was unavailable counts nowhere else
  cases.push_back(CaseOf("good"));
  const JudgeCheck check = CompareAnswers(cases, answers);
  EXPECT_EQ(check.unavailable, 1u);
  EXPECT_EQ(check.all.count, 400u);
  EXPECT_EQ(check.all.right, right);
  EXPECT_NEAR(check.auc, wins / pairs, 1e-12);
  EXPECT_NEAR(check.calibration_error, error, 1e-12);
}

TEST(CaseShare, HasWilsonsInterval) {
  const CaseShare share{.right = 8, .count = 10};
  EXPECT_NEAR(share.low(), 0.4902, 1e-4);
  EXPECT_NEAR(share.high(), 0.9433, 1e-4);
}

TEST(JudgeCaseWriter, MakesTheSharesAskedForAndTheSameLinesFromASeed) {
  JudgeCaseOptions options;
  options.instructing = 0.1;
  JudgeCaseWriter writer(options), again(options);
  std::map<std::string, int> kinds, labels;
  for (int i = 0; i < 3000; ++i) {
    const std::string line = writer.Next();
    ASSERT_EQ(line, again.Next());
    const auto one = ParseJudgeCase(line);
    ASSERT_TRUE(one.ok()) << one.status().ToString() << line;
    ++kinds[one->kind], ++labels[one->label];
  }
  EXPECT_NEAR(kinds["misleading"] / 3000.0, 0.3 * 0.9, 0.03);
  EXPECT_NEAR(kinds["instructing"] / 3000.0, 0.1, 0.02);
  EXPECT_GT(labels["good"], 1000);
  EXPECT_GT(labels["bad"], 1000);
  EXPECT_GT(labels["neutral"], 150);
}

TEST(JudgeCheck, AsksARealEndpointAboutEveryCaseOfItsTask) {
  ScriptedEndpoint server([](const std::string&, const std::string& body) {
    const bool praised = body.find("1 of 1 tests passed") != std::string::npos;
    return ScriptedEndpoint::Reaction{
        .bytes = ScriptedEndpoint::Answer(
            200, std::string("{\"choices\": [{\"message\": {\"content\": \"{\\\"verdict\\\": "
                             "\\\"") +
                     (praised ? "good" : "bad") + "\\\"}\"}}]}")};
  });
  JudgeConfig keys;
  keys.name = "j", keys.endpoint = server.url(), keys.task = "next_state", keys.concurrency = 2;
  JudgeCaseWriter writer({});
  std::vector<JudgeCase> cases;
  for (int i = 0; i < 60; ++i) cases.push_back(ParseJudgeCase(writer.Next()).value());
  cases.push_back(ParseJudgeCase("{\"task\": \"outcome\", \"label\": \"no\"}").value());
  auto port = HttpJudgePort::Make({keys}).value();
  const auto check = RunJudgeCheck(keys, {keys}, *port, cases, {});
  ASSERT_TRUE(check.ok()) << check.status().ToString();
  EXPECT_EQ(check->all.count, 60u);
  EXPECT_GT(check->all.value(), 0.4);
  EXPECT_GT(check->seconds_median, 0);
}

TEST(JudgeCheck, AnEndpointThatRefusesEveryQuestionIsAnErrorSoon) {
  ScriptedEndpoint server([](const std::string&, const std::string&) {
    return ScriptedEndpoint::Reaction{
        .bytes = ScriptedEndpoint::Answer(401, "{\"error\": \"no such key\"}")};
  });
  JudgeConfig keys;
  keys.name = "j", keys.endpoint = server.url(), keys.task = "next_state", keys.concurrency = 2;
  JudgeCaseWriter writer({});
  std::vector<JudgeCase> cases;
  for (int i = 0; i < 3000; ++i) cases.push_back(ParseJudgeCase(writer.Next()).value());
  auto port = HttpJudgePort::Make({keys}).value();
  const auto check = RunJudgeCheck(keys, {keys}, *port, cases, {});
  ASSERT_FALSE(check.ok());
  EXPECT_EQ(check.status().code(), Code::kUnavailable);
  for (const std::string& part :
       {std::string("no such key"), keys.endpoint, std::string("of 3000 cases done")})
    EXPECT_NE(check.status().message().find(part), std::string::npos) << check.status().message();
}

}  // namespace
}  // namespace tidemill
