// The replay loop on a bus, a store and a clock that do only what a test tells them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/group_token.h"
#include "core/topics.h"
#include "replay/replay_loop.h"
#include "testing/test_kit.h"

namespace tidemill {

class FakeStore final : public StorePort {
 public:
  void Submit(StoreOp op, uint64_t tag) override {
    if (auto* fate = std::get_if<PutFate>(&op)) fates[fate->id.member()] = FateName(fate->fate);
    waiting.emplace_back(std::move(op), tag);
  }
  void Answer() {
    for (auto& [op, tag] : std::exchange(waiting, {})) {
      Status status;
      if (auto* put = std::get_if<PutTrajectory>(&op)) {
        const v1::TrajectoryId& id = put->trajectory.id();
        if (!stored.insert({id.group(), id.member()}).second) status = Exists("there");
      }
      events_.Post({tag, status, 0});
    }
  }
  Mailbox<StoreDone>& events() override { return events_; }
  std::vector<std::pair<StoreOp, uint64_t>> waiting;
  std::set<std::pair<uint64_t, uint32_t>> stored;
  std::map<uint32_t, std::string> fates;

 private:
  Mailbox<StoreDone> events_{10000};
};

class ReplayTest : public testing::Test {
 protected:
  ReplayTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {.lease = std::chrono::seconds(30)}).ok());
    EXPECT_TRUE(bus_.Open("learner", {}).ok());
    tasks_.resize(1);
    tasks_[0].set_id("t");
    tasks_[0].mutable_grading()->add_cases()->set_input("1");
    book_.Add(tasks_);
    options_.staleness = {.hard_max_steps = 2};
    options_.secret = kSecret;
    options_.versions = VersionsTo(9);
  }
  // Of the default policy: version n of step n - 1.
  static PolicyVersions VersionsTo(uint64_t last) {
    PolicyVersions versions;
    for (uint64_t version = 1; version <= last; ++version) {
      versions.Published(PolicyId::kMain, version, version - 1);
    }
    return versions;
  }
  void Make(std::vector<StoredSample> stored = {}) {
    replay_ = std::make_unique<ReplayLoop>(bus_, store_, clock_, journal_, book_, options_,
                                           std::move(stored));
    replay_->Attach(waker_);
  }
  // What a run of before had stored of a whole group, scored; the reward of a member is its number.
  static std::vector<StoredSample> StoredGroup(uint64_t group, uint32_t members) {
    std::vector<StoredSample> stored(members);
    for (uint32_t member = 0; member < members; ++member) {
      stored[member].trajectory = Episode(group, member, 1);
      stored[member].trajectory.set_group_members(members);
      v1::Verdict& verdict = stored[member].verdict.emplace();
      *verdict.mutable_id() = stored[member].trajectory.id();
      verdict.set_request_id("asked before");
      verdict.set_scored(true);
      verdict.set_reward(member);
    }
    return stored;
  }
  void Step() { replay_->Step(clock_.Now()); }
  void Settle() {
    for (int i = 0; i < 4; ++i) Step(), store_.Answer();
    Step();
  }
  static v1::Trajectory Episode(uint64_t group, uint32_t member, uint64_t version) {
    v1::Trajectory trajectory;
    v1::TrajectoryId& id = *trajectory.mutable_id();
    id.set_task("t"), id.set_group(group), id.set_member(member), id.set_attempt(1);
    trajectory.set_purpose(v1::PURPOSE_TRAIN);
    trajectory.set_group_members(2);
    trajectory.set_end(v1::EPISODE_END_SUBMITTED);
    trajectory.mutable_sampling()->set_temperature(1);
    trajectory.add_prompt_ids(1);
    v1::Turn& turn = *trajectory.add_turns();
    turn.add_ids(3);
    turn.add_logprobs(-0.5f);
    v1::VersionRun& run = *turn.add_versions();
    run.set_version(version), run.set_tokens(1);
    return trajectory;
  }
  void Send(v1::Trajectory trajectory) {
    trajectory.set_token(GroupToken(kSecret, trajectory));
    SendAsIs(trajectory);
  }
  void SendAsIs(const v1::Trajectory& trajectory) {
    EXPECT_TRUE(bus_.Publish(kTrajectoriesTopic, trajectory.SerializeAsString()).ok());
  }
  // Answers every score request; the reward of a member is its number unless `same`.
  void Score(bool same = false, bool scored = true) {
    for (const Lease& lease : bus_.Receive(kScoreTopic, 100).value()) {
      v1::ScoreRequest request;
      ASSERT_TRUE(request.ParseFromString(lease.body));
      v1::Verdict verdict;
      *verdict.mutable_id() = request.id();
      verdict.set_request_id(request.request_id());
      verdict.set_token(request.token());
      verdict.set_scored(scored);
      verdict.set_reward(same ? 1 : reward_scale_ * request.id().member());
      v1::RewardPart& part = *verdict.add_parts();
      part.set_scorer("judge"), part.set_scorer_version(scorer_version_);
      EXPECT_TRUE(bus_.PublishReply(request.reply_to(), verdict.SerializeAsString()).ok());
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
  }
  // A whole group, scored; the reports are left on the bus.
  void Finish(uint64_t group, uint64_t version = 1) {
    Send(Episode(group, 0, version)), Send(Episode(group, 1, version));
    Settle(), Score(), Settle();
  }
  static std::set<uint64_t> Groups(const v1::Batch& batch) {
    std::set<uint64_t> groups;
    for (const v1::Sample& sample : batch.samples())
      groups.insert(sample.trajectory().id().group());
    return groups;
  }
  void Publish(uint64_t version, uint64_t step) {
    v1::VersionPublished published;
    published.set_version(version), published.set_step(step);
    EXPECT_TRUE(bus_.Publish(kVersionsTopic, published.SerializeAsString()).ok());
  }
  void Ask(uint64_t step, uint64_t version, uint32_t episodes = 2) {
    Publish(version, step);
    v1::BatchRequest request;
    request.set_step(step), request.set_episodes(episodes), request.set_reply_to("learner");
    request.set_version(version);
    EXPECT_TRUE(bus_.Publish(kBatchRequestsTopic, request.SerializeAsString()).ok());
  }
  std::vector<v1::Batch> Batches() {
    std::vector<v1::Batch> batches;
    for (const Lease& lease : bus_.Receive("learner", 10).value()) {
      EXPECT_TRUE(batches.emplace_back().ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return batches;
  }
  std::vector<v1::GroupReport> Reports() {
    std::vector<v1::GroupReport> reports;
    for (const Lease& lease : bus_.Receive(kDispatchTopic, 100).value()) {
      v1::DispatchEvent event;
      EXPECT_TRUE(event.ParseFromString(lease.body));
      reports.push_back(event.group());
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return reports;
  }

  static constexpr const char* kSecret = "of this run";
  QuietWaker waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  FakeStore store_;
  NullJournal journal_;
  std::vector<v1::Task> tasks_;
  TaskBook book_;
  ReplayOptions options_;
  double reward_scale_ = 1;
  uint32_t scorer_version_ = 1;
  std::unique_ptr<ReplayLoop> replay_;
};

}  // namespace tidemill
