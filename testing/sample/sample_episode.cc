// The episodes of a made-up run: turns, tool calls, verdicts.
#include <algorithm>
#include <array>

#include "testing/sample/sample_run.h"

namespace tidemill {
namespace {

std::string Source(uint32_t t, bool right) {
  const std::string n = std::to_string(t);
  return "int f(int a, int b) {\n  // case " + n + "\n  if (a " + (right ? "<" : ">") +
         " b) {\n    return b;\n  }\n  for (int i = 0; i < " + n +
         "; i++) a += 0;\n  return a;\n}\n";
}

}  // namespace

std::string SampleRun::TaskName(uint32_t t) const {
  static constexpr std::array kNames = {"clamp",          "gcd", "is_prime", "count_bits",
                                        "reverse_digits", "fib", "max3",     "abs_diff"};
  return "cfunc/" + std::string(kNames[t % kNames.size()]) + "-" + std::to_string(t);
}

// Some are easy, some never succeed, one gets worse.
double SampleRun::SolveChance(uint32_t t) const {
  const double progress =
      std::min(1.0, static_cast<double>(step_) / static_cast<double>(options_.steps));
  if (t % 11 == 10) return 0;
  if (t % 13 == 12) return 0.85 - 0.75 * progress;
  const double ease = 0.6 + 0.4 * static_cast<double>((t * 7) % 10) / 10;
  return std::min(0.97, 0.12 + ease * 0.8 * progress);
}

int64_t SampleRun::WriteEpisode(v1::Purpose purpose, const std::string& eval, uint32_t t,
                                uint32_t member, v1::GroupReport& report,
                                std::vector<v1::TrajectoryId>* used) {
  auto slot = std::min_element(slot_free_ms_.begin(), slot_free_ms_.end());
  v1::Trajectory trajectory;
  trajectory.mutable_id()->set_task(TaskName(t));
  trajectory.mutable_id()->set_group(group_);
  trajectory.mutable_id()->set_member(member);
  trajectory.mutable_id()->set_attempt(1);
  trajectory.set_purpose(purpose);
  trajectory.set_eval_name(eval);
  trajectory.set_worker("local");
  trajectory.set_group_members(options_.group_size);
  trajectory.set_started_ms(*slot);
  trajectory.mutable_sampling()->set_temperature(1.0);
  const bool solved = random_.Chance(SolveChance(t));
  const bool stale = purpose == v1::PURPOSE_TRAIN && random_.Chance(0.004);
  AddText(*trajectory.mutable_prompt_ids(), "Write the C function " + TaskName(t) + ".\n");
  const auto turns = static_cast<uint32_t>(solved ? random_.Between(1, 2) : random_.Between(1, 3));
  int64_t now = *slot;
  for (uint32_t i = 0; i < turns; ++i) now = AddTurn(trajectory, t, solved && i + 1 == turns, now);
  trajectory.set_finished_ms(now);
  trajectory.set_end(stale                  ? v1::EPISODE_END_GIVEN_UP
                     : random_.Chance(0.03) ? v1::EPISODE_END_MAX_TOKENS
                                            : v1::EPISODE_END_SUBMITTED);
  if (stale) trajectory.set_stale_cause("tools.run_tests: the box could not start");
  trajectory.set_submission(Source(t, solved));
  v1::File& file = *trajectory.mutable_tree()->add_files();
  file.set_path("solution.c");
  file.set_content(Source(t, solved));
  file.set_has_content(true);
  if (group_ == 1 && member == 0) {  // of an agent that is a program
    trajectory.mutable_log()->set_text("Traceback: <b>no</b> module named x\n");
    trajectory.mutable_log()->set_diff(
        "--- solution.c\n+++ solution.c\n@@ -1 +1 @@\n-int f;\n+int f(int a);\n");
  }
  *slot = now + 20;
  ++episodes_, ++metrics_->totals.episodes;
  clock_.Set(std::max(clock_.WallMs(), now));
  const v1::TrajectoryId id = trajectory.id();
  const bool remembered = options_.memory && purpose == v1::PURPOSE_TRAIN;
  if (remembered) ShowCases(trajectory);
  const v1::Trajectory made = remembered ? trajectory : v1::Trajectory();
  Put(PutTrajectory{std::move(trajectory)});
  if (stale) {
    ++stale_, ++metrics_->totals.stale;
    Put(PutFate{id, Fate::kStale, "tools.run_tests: the box could not start"});
    return now;
  }
  PutScore(id, solved, report);
  if (remembered) Remember(made, solved);
  if (used != nullptr) used->push_back(id);
  return now;
}

// Members of a group are shown different ones.
void SampleRun::ShowCases(v1::Trajectory& trajectory) {
  for (uint64_t back = 0; back < 3 && back < cases_; ++back) {
    trajectory.add_shown_cases(cases_ - (back * 7 + trajectory.id().member()) % cases_);
  }
}

void SampleRun::Remember(const v1::Trajectory& trajectory, bool solved) {
  v1::CaseRecord record;
  *record.mutable_id() = trajectory.id();
  record.set_scope(trajectory.id().group() % 2 == 0 ? "alpha" : "beta");
  record.set_prompt("Write the C function " + trajectory.id().task() + ".");
  record.set_answer(trajectory.submission());
  record.set_solved(solved);
  record.set_reward(solved ? 1 : 0);
  record.set_group_members(trajectory.group_members());
  *record.mutable_shown() = trajectory.shown_cases();
  record.set_at_ms(trajectory.finished_ms());
  const v1::ToolCall& call = trajectory.turns(0).calls(0);
  v1::ToolNote& note = *record.add_tools();
  note.set_tool(call.tool());
  note.set_arguments_json("{}");
  note.set_outcome(call.outcome());
  note.set_text(call.text());
  ++cases_;
  Put(PutCase{std::move(record)});
}

void SampleRun::PutScore(const v1::TrajectoryId& id, bool solved, v1::GroupReport& report) {
  v1::Verdict verdict;
  *verdict.mutable_id() = id;
  verdict.set_scored(true);
  verdict.set_solved(solved);
  verdict.set_compiled(solved || random_.Chance(0.7));
  verdict.set_tests_total(8);
  verdict.set_tests_passed(solved ? 8 : static_cast<uint32_t>(random_.Below(8)));
  const double share = verdict.tests_passed() / 8.0;
  const double lint = -0.1 * static_cast<double>(random_.Below(3));
  auto part = [&](const char* scorer, double value, double weight, const char* comment) {
    v1::RewardPart& p = *verdict.add_parts();
    p.set_scorer(scorer), p.set_scorer_version(1), p.set_value(value), p.set_weight(weight),
        p.set_comment(comment);
  };
  part("tests", share, 1, solved ? "all hidden tests pass" : "some hidden tests fail");
  part("lint", lint, 0.1, lint < 0 ? "unused variable" : "clean");
  verdict.set_reward(share + 0.1 * lint);
  report.set_scored(report.scored() + 1);
  report.set_solved(report.solved() + (solved ? 1 : 0));
  report.set_reward_sum(report.reward_sum() + verdict.reward());
  ++metrics_->totals.scored;
  metrics_->totals.solved += solved ? 1 : 0;
  Put(PutVerdict{std::move(verdict)});
}

int64_t SampleRun::AddTurn(v1::Trajectory& trajectory, uint32_t t, bool right, int64_t now) {
  v1::Turn& turn = *trajectory.add_turns();
  turn.set_started_ms(now);
  AddText(*turn.mutable_ids(),
          "<tool_call>\n{\"name\": \"run_tests\", \"arguments\": {\"solution.c\": \"" +
              Source(t, right) + "\"}}\n</tool_call>");
  const int tokens = turn.ids_size();
  for (int i = 0; i < tokens; ++i) {
    turn.add_logprobs(static_cast<float>(-random_.Exponential(random_.Chance(0.1) ? 2.5 : 0.15)));
  }
  const int64_t took = 150 + tokens * 4 + static_cast<int64_t>(random_.Exponential(120));
  const bool swapped = !options_.synchronous && step_ > 0 && random_.Chance(0.3);
  auto version = [&](uint64_t v, int n) {
    if (n <= 0) return;
    turn.add_versions()->set_version(v);
    turn.mutable_versions(turn.versions_size() - 1)->set_tokens(static_cast<uint32_t>(n));
  };
  const uint64_t behind = options_.synchronous || step_ == 0 ? 0 : random_.Below(2);
  version(step_ - behind - (swapped && step_ > behind ? 1 : 0), swapped ? tokens / 2 : 0);
  version(step_ - behind, swapped ? tokens - tokens / 2 : tokens);
  metrics_->totals.generated += tokens;
  metrics_->generating.Add(now, now + took);
  turn.set_finished_ms(now + took);
  turn.set_end(v1::TURN_END_STOP);
  AddCall(turn, right);
  const v1::ToolCall& call = turn.calls(0);
  AddText(*turn.mutable_observation_ids(),
          "\n<tool_response>\n" + call.text() + "\n</tool_response>\n");
  turn.set_observed_ms(turn.finished_ms() + static_cast<int64_t>(call.wait_ms()));
  metrics_->boxes.Add(turn.observed_ms() - static_cast<int64_t>(call.run_ms()), turn.observed_ms());
  return turn.observed_ms();
}

void SampleRun::AddCall(v1::Turn& turn, bool right) {
  v1::ToolCall& call = *turn.add_calls();
  call.set_tool(random_.Chance(0.2) ? "compile" : random_.Chance(0.1) ? "lint" : "run_tests");
  call.set_arguments_json(Json{{"path", "solution.c"}}.dump());
  call.set_outcome(right                  ? v1::OUTCOME_OK
                   : random_.Chance(0.06) ? v1::OUTCOME_TIMEOUT
                                          : v1::OUTCOME_FAILED);
  call.set_compiled(true);
  call.set_tests_total(4);
  call.set_tests_passed(right ? 4 : static_cast<uint32_t>(random_.Below(4)));
  call.set_run_ms(random_.LogNormal(140, 0.7));
  call.set_wait_ms(call.run_ms() + random_.Exponential(60));
  call.set_retries(random_.Chance(0.02) ? 1 : 0);
  retries_ += call.retries(), metrics_->totals.retries += call.retries();
  call.set_text(right ? "4 of 4 tests pass"
                      : "test 2: f(3, 7) expected 7, got 3\ntest 4: f(0, -1) expected 0, got -1");
  ++metrics_->totals.tool_calls;
}

void SampleRun::AddText(google::protobuf::RepeatedField<uint32_t>& ids, const std::string& text) {
  if (tokenizer_) {
    for (const TokenId id : tokenizer_->Encode(text, SpecialTokens::kAsText))
      ids.Add(static_cast<uint32_t>(id));
  } else {
    for (size_t i = 0; i < text.size(); i += 4)
      ids.Add(static_cast<uint32_t>(random_.Below(32'000)));
  }
}

}  // namespace tidemill
