#include "core/message_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/message_rules.h"
#include "proto/session.pb.h"
#include "proto/skills.pb.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

// A field that was added to the schema and has no row would abort the first check; here it is
// named.
TEST(MessageRules, EveryFieldOfEveryMessageHasOneRowOfItsKindAndNoRowIsLeftOver) {
  std::map<std::string, int> rows;
  for (const FieldRule& rule : MessageRules()) ++rows[std::string(rule.field)];
  std::vector<const google::protobuf::Descriptor*> types;
  for (const auto* file : {v1::Task::descriptor()->file(), v1::Session::descriptor()->file(),
                           v1::SkillLesson::descriptor()->file()}) {
    for (int i = 0; i < file->message_type_count(); ++i) types.push_back(file->message_type(i));
  }
  types.push_back(v1::Heartbeat::descriptor()->nested_type(0));
  for (const auto* type : types) {
    for (int i = 0; i < type->field_count(); ++i) {
      const std::string name = type->name() + "." + type->field(i)->name();
      EXPECT_EQ(rows[name], 1) << name;
      rows.erase(name);
    }
  }
  EXPECT_TRUE(rows.empty()) << "no field is called " << rows.begin()->first;
}

v1::GroupLease Lease() {
  v1::GroupLease lease;
  lease.set_group(7), lease.set_members(4), lease.set_max_turns(2);
  lease.mutable_task()->set_id("t");
  lease.set_purpose(v1::PURPOSE_TRAIN);
  return lease;
}

TEST(CheckMessage, ALeaseOnMoreEpisodesThanTheConfigAllowsIsRefused) {
  v1::GroupLease lease = Lease();
  v1::GroupLease read;
  EXPECT_TRUE(ReadMessage(lease.SerializeAsString(), read, {.members = 4}).ok());
  lease.set_members(4294967295u);
  EXPECT_EQ(ReadMessage(lease.SerializeAsString(), read, {.members = 4}).message(),
            "GroupLease.members: 4294967295 is not between 1 and 4");
}

TEST(CheckMessage, ATaskMayAllowMoreTurnsThanTheConfig) {
  v1::GroupLease lease = Lease(), read;
  lease.mutable_task()->set_max_turns(50);
  EXPECT_TRUE(ReadMessage(lease.SerializeAsString(), read, {.turns = 2}).ok());
  lease.set_max_turns(3);
  EXPECT_EQ(ReadMessage(lease.SerializeAsString(), read, {.turns = 2}).message(),
            "GroupLease.max_turns: 3 is not between 1 and 2");
}

// Several judges say something of one turn, and a pairwise one of each pair.
TEST(CheckMessage, MoreIsJudgedThanThereAreTurns) {
  v1::JudgeAnswer answer, read;
  answer.set_request_id("r");
  for (int i = 0; i < 3; ++i) answer.add_judgements()->set_judge("j");
  const Status answered = ReadMessage(answer.SerializeAsString(), read, {.turns = 1});
  EXPECT_TRUE(answered.ok()) << answered.message();
  v1::RewardPart part, read_part;
  part.set_scorer("judge");
  *part.mutable_judgements() = answer.judgements();
  const Status scored = ReadMessage(part.SerializeAsString(), read_part, {.turns = 1});
  EXPECT_TRUE(scored.ok()) << scored.message();
}

TEST(CheckMessage, NamesTheFieldWhereverItLies) {
  v1::GroupLease lease = Lease(), read;
  const auto why = [&] { return ReadMessage(lease.SerializeAsString(), read).message(); };
  v1::File& file = *lease.mutable_task()->add_files();
  file.set_path("a/../b");
  EXPECT_THAT(why(), HasSubstr("GroupLease.task.files[0].path: the path \"a/../b\" has"));
  file.set_path("a"), file.set_hash("xyz");
  EXPECT_EQ(why(), "GroupLease.task.files[0].hash: \"xyz\" is no SHA-256");
  file.clear_hash();
  lease.mutable_sampling()->set_temperature(std::nan(""));
  EXPECT_EQ(why(), "GroupLease.sampling.temperature: nan is not between 0 and 100");
  lease.clear_sampling();
  lease.set_purpose(static_cast<v1::Purpose>(9));
  EXPECT_EQ(why(), "GroupLease.purpose: has no value 9");
  lease.clear_purpose();
  EXPECT_EQ(why(), "GroupLease.purpose: is not said");
  lease.set_purpose(v1::PURPOSE_EVAL);
  lease.clear_task();
  EXPECT_EQ(why(), "GroupLease.task: is missing");
}

TEST(CheckMessage, TokensAreCountedInTheConversationOfTheirRole) {
  v1::Trajectory trajectory;
  v1::TrajectoryId& id = *trajectory.mutable_id();
  id.set_task("t"), id.set_group(1), id.set_attempt(1);
  trajectory.set_purpose(v1::PURPOSE_TRAIN);
  trajectory.set_group_members(1);
  trajectory.set_end(v1::EPISODE_END_SUBMITTED);
  trajectory.mutable_sampling()->set_temperature(1);
  trajectory.add_prompt_ids(1);
  for (const char* role : {"code", "look", "code"}) {
    v1::Turn& turn = *trajectory.add_turns();
    turn.set_role(role);
    turn.add_ids(1), turn.add_logprobs(-1);
    v1::VersionRun& run = *turn.add_versions();
    run.set_version(1), run.set_tokens(1);
  }
  for (const uint32_t id_of : {1, 2, 3, 4}) trajectory.mutable_turns(1)->add_prompt_ids(id_of);
  EXPECT_EQ(CheckMessage(trajectory, {.tokens = 5}).message(), "") << "4 and 1, or 1 and 2";
  EXPECT_NE(CheckMessage(trajectory, {.tokens = 4}).message(), "");
}

TEST(CheckMessage, AHeartbeatsNumbersMustBeNumbers) {
  v1::Heartbeat beat, read;
  beat.set_worker("w");
  (*beat.mutable_numbers())["calls"] = HUGE_VAL;
  EXPECT_EQ(ReadMessage(beat.SerializeAsString(), read).message(),
            "Heartbeat.numbers[0].value: inf is not between -1e+300 and 1e+300");
}

TEST(CheckMessage, AnEventSaysSomething) {
  v1::DispatchEvent event;
  EXPECT_EQ(ReadMessage("", event).message(), "DispatchEvent.event: is missing");
}

TEST(CheckMessage, SizesAreBounded) {
  v1::ToolRequest request, read;
  request.set_request_id("r"), request.set_tool("compile"), request.set_reply_to("inbox.w.rollout");
  v1::TrajectoryId& episode = *request.mutable_episode();
  episode.set_task("t"), episode.set_group(1), episode.set_attempt(1);
  EXPECT_TRUE(ReadMessage(request.SerializeAsString(), read).ok());
  EXPECT_THAT(ReadMessage(request.SerializeAsString(), read, {.body_bytes = 5}).message(),
              HasSubstr("at most 5 are allowed"));
  request.mutable_limits()->set_wall_ms(4000000000u);
  EXPECT_THAT(ReadMessage(request.SerializeAsString(), read).message(),
              HasSubstr("ToolRequest.limits.wall_ms: 4000000000 is not"));
  request.clear_limits();
  request.set_reply_to("two words");
  EXPECT_THAT(ReadMessage(request.SerializeAsString(), read).message(), HasSubstr("no topic"));
}

}  // namespace
}  // namespace tidemill
