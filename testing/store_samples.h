// Samples for tests of the store: trajectories, verdicts and groups.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/random.h"
#include "store/run_db.h"
#include "store/store_port.h"
#include "testing/test_kit.h"

namespace tidemill {

inline v1::TrajectoryId SampleId(uint64_t group, uint32_t member, uint32_t attempt = 1) {
  v1::TrajectoryId id;
  id.set_task("task-" + std::to_string(group % 7));
  id.set_group(group);
  id.set_member(member);
  id.set_attempt(attempt);
  return id;
}

// One turn of `tokens` tokens drawn under `version`.
inline v1::Trajectory SampleTrajectory(const v1::TrajectoryId& id, uint32_t tokens = 8,
                                       uint64_t version = 1) {
  v1::Trajectory t;
  *t.mutable_id() = id;
  t.set_purpose(v1::PURPOSE_TRAIN);
  t.set_end(v1::EPISODE_END_SUBMITTED);
  t.set_worker("rollout-1");
  t.set_group_members(4);
  t.set_started_ms(1'700'000'000'000 + static_cast<int64_t>(id.group()) * 1000);
  t.set_finished_ms(t.started_ms() + 500);
  for (uint32_t i = 0; i < 16; ++i) t.add_prompt_ids(i);
  v1::Turn& turn = *t.add_turns();
  Random random(id.group() * 31 + id.member());
  for (uint32_t i = 0; i < tokens; ++i) {
    turn.add_ids(static_cast<uint32_t>(random.Below(32'000)));
    turn.add_logprobs(static_cast<float>(-random.Exponential(0.8)));
  }
  if (tokens > 0) {
    v1::VersionRun& run = *turn.add_versions();
    run.set_version(version);
    run.set_tokens(tokens);
  }
  turn.set_end(v1::TURN_END_STOP);
  return t;
}

inline v1::Verdict SampleVerdict(const v1::TrajectoryId& id, double reward) {
  v1::Verdict verdict;
  *verdict.mutable_id() = id;
  verdict.set_scored(true);
  verdict.set_reward(reward);
  verdict.set_solved(reward >= 1);
  verdict.set_compiled(true);
  verdict.set_tests_passed(reward >= 1 ? 5 : 2);
  verdict.set_tests_total(5);
  return verdict;
}

inline PutGroup SampleGroup(uint64_t group, const std::string& cursor) {
  PutGroup put;
  put.group.set_group(group);
  put.group.mutable_task()->set_id(SampleId(group, 0).task());
  put.group.set_members(4);
  put.group.set_purpose(v1::PURPOSE_TRAIN);
  put.group.set_seed(group * 17);
  put.cursor = cursor;
  return put;
}

inline PutGroupReport SampleReport(uint64_t group, uint32_t revision, uint32_t accepted,
                                   uint32_t dropped) {
  PutGroupReport put;
  put.report.set_group(group);
  put.report.set_revision(revision);
  put.report.set_accepted(accepted);
  put.report.set_dropped(dropped);
  return put;
}

inline std::unique_ptr<RunDb> OpenDb(const std::string& path, const RunDb::Options& options = {}) {
  static const RealClock clock;
  auto db = RunDb::Open(path, clock, options);
  TM_CHECK(db.ok(), db.status().ToString());
  return std::move(*db);
}

}  // namespace tidemill
