#include "learner/group_question.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "learner/step_batch.h"
#include "testing/learner_samples.h"

namespace tidemill {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Two groups, one of three members and one of two, in the order a batch may have them.
v1::Batch TwoGroups() {
  v1::Batch batch;
  const TurnSpec turn{{1, 1}, {-0.5f, -0.25f}, {{1, 2}}, {}, ""};
  const std::pair<uint64_t, double> of[] = {{9, 1}, {4, 0.25}, {9, 0}, {4, 0.75}, {9, 0.5}};
  uint32_t member = 0;
  for (const auto& [group, reward] : of) {
    *batch.add_samples() = MakeSample(group, member++, reward, {1}, {turn});
  }
  return batch;
}

// Gives these answers and keeps the questions.
struct Answers {
  std::vector<std::string> lines;
  std::vector<json> questions = {};

  Result<StepBatch> Prepare(const v1::Batch& batch, AdvantageKind kind) {
    CreditConfig credit;
    credit.group = [this](const std::vector<std::string>& asked) {
      for (const std::string& one : asked) questions.push_back(json::parse(one));
      return Result<std::vector<std::string>>(lines);
    };
    return PrepareStep(batch, kind, credit, {});
  }
};

TEST(GroupQuestion, AsksOnceAGroupWithItsMembersInTheirOrder) {
  Answers answers{{R"({"id":1,"keep":[true,true]})", R"({"id":2,"keep":[true,true,true]})"}};
  ASSERT_TRUE(answers.Prepare(TwoGroups(), AdvantageKind::kLeaveOneOut).ok());
  ASSERT_EQ(answers.questions.size(), 2u);
  const json& second = answers.questions[1];
  EXPECT_EQ(second["group"], 9);
  EXPECT_EQ(second["task"], "task");
  ASSERT_EQ(second["members"].size(), 3u);
  EXPECT_EQ(second["members"][0]["reward"], 1.0);
  EXPECT_EQ(second["members"][1]["member"], 2);
  EXPECT_EQ(second["members"][2]["generated_tokens"], 2);
}

TEST(GroupQuestion, AdvantagesThatAreGivenReplaceTheComparison) {
  Answers answers{{R"({"id":1,"advantages":[-2,2]})", R"({"id":2,"advantages":[0.5,0.25,-4]})"}};
  const auto step = answers.Prepare(TwoGroups(), AdvantageKind::kGroupNormalized);
  ASSERT_TRUE(step.ok()) << step.status().message();
  const double wanted[] = {0.5, -2, 0.25, 2, -4};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(step->advantages[i][0], wanted[i]) << i;
  EXPECT_EQ(step->metrics.at("left_out"), 0);
  EXPECT_EQ(step->metrics.at("turn_credit"), 0);
}

TEST(GroupQuestion, WhoIsLeftOutIsInNoLossAndInNoComparison) {
  Answers answers{{R"({"id":1,"keep":[true,true]})", R"({"id":2,"keep":[true,false,true]})"}};
  const auto step = answers.Prepare(TwoGroups(), AdvantageKind::kLeaveOneOut);
  ASSERT_TRUE(step.ok()) << step.status().message();
  EXPECT_EQ(step->metrics.at("left_out"), 1);
  EXPECT_EQ(step->Trainable(), (std::vector<int32_t>{0, 1, 3, 4}));
  EXPECT_DOUBLE_EQ(step->advantages[0][0], 1 - 0.5) << "against 0.5 alone";
  EXPECT_DOUBLE_EQ(step->advantages[4][0], 0.5 - 1);
  EXPECT_EQ(step->advantages[2][0], 0);
  EXPECT_EQ(step->sequences[2].trained_tokens, 0u);
}

TEST(GroupQuestion, AnAnswerThatIsNoneIsAFailureThatNamesTheGroup) {
  const auto why = [](std::vector<std::string> lines,
                      AdvantageKind kind = AdvantageKind::kLeaveOneOut) {
    Answers answers{std::move(lines)};
    return answers.Prepare(TwoGroups(), kind).status();
  };
  const std::string good = R"({"id":1,"advantages":[0,0]})";
  EXPECT_EQ(why({good, "{}"}).code(), Code::kUnavailable);
  EXPECT_THAT(why({good, "{}"}).message(), HasSubstr("group 9"));
  EXPECT_THAT(why({good, R"({"advantages":[1,2]})"}).message(), HasSubstr("3 members"));
  EXPECT_THAT(why({good, R"({"advantages":[1,2,"x"]})"}).message(), HasSubstr("finite"));
  EXPECT_THAT(why({good, R"({"keep":[true,true,1]})"}).message(), HasSubstr("in none"));
  EXPECT_THAT(why({R"({"keep":[true,1]})", good}).message(), HasSubstr("group 4"));
  EXPECT_THAT(why({R"({"keep":[true]})", good}).message(), HasSubstr("2 members"));
  EXPECT_THAT(why({good, R"({"advantages":[1,2,3]})"}, AdvantageKind::kVtrace).message(),
              HasSubstr("vtrace"));
}

}  // namespace
}  // namespace tidemill
