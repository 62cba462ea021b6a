// A made-up run for the tests of src/serve and of the page: a simulated small agent that gets
// better, written through the real store. The same seed gives the same run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "model/tokenizer.h"
#include "proto/tidemill.pb.h"
#include "store/run_db.h"
#include "store/run_directory.h"
#include "testing/sample/sample_metrics.h"
#include "testing/sample/sample_options.h"

namespace tidemill {

class SampleClock final : public Clock {
 public:
  explicit SampleClock(int64_t wall_ms) : wall_ms_(wall_ms) {}
  Time Now() const override { return Time(milliseconds(wall_ms_)); }
  int64_t WallMs() const override { return wall_ms_; }
  void Set(int64_t wall_ms) { wall_ms_ = wall_ms; }

 private:
  int64_t wall_ms_;
};

class SampleRun {
 public:
  SampleRun(const std::string& folder, const std::string& name, const SampleOptions& options);
  SampleRun(const SampleRun&) = delete;
  SampleRun& operator=(const SampleRun&) = delete;

  // From the evaluation before to the one after, and the summary.
  void WriteAll();
  // The episodes of one step, and the step.
  void WriteStep();
  void Evaluate(const std::string& eval);
  void Finish();
  void Warn(const std::string& what);
  // One line of totals as a run writes every second; `now` only grows.
  void Tick(int64_t now) { metrics_->Tick(now); }

  uint64_t episodes() const { return episodes_; }
  uint64_t step() const { return step_; }
  const RunDirectory& directory() const { return *directory_; }

 private:
  using Json = SampleMetrics::Json;

  std::string ConfigToml() const;
  void Put(StoreOp op) { ops_.push_back(std::make_unique<StoreOp>(std::move(op))); }
  void Flush();
  void Log(const char* kind, const Json& fields) { metrics_->Add(clock_.WallMs(), kind, fields); }

  // When the last member was finished.
  int64_t WriteGroup(v1::Purpose purpose, const std::string& eval,
                     std::vector<v1::TrajectoryId>* used, double* reward);
  void Train(const std::vector<v1::TrajectoryId>& used, double reward, int64_t batch_ms);

  // sample_episode.cc
  std::string TaskName(uint32_t t) const;
  double SolveChance(uint32_t t) const;
  int64_t WriteEpisode(v1::Purpose purpose, const std::string& eval, uint32_t t, uint32_t member,
                       v1::GroupReport& report, std::vector<v1::TrajectoryId>* used);
  void PutScore(const v1::TrajectoryId& id, bool solved, v1::GroupReport& report);
  void ShowCases(v1::Trajectory& trajectory);
  void Remember(const v1::Trajectory& trajectory, bool solved);
  int64_t AddTurn(v1::Trajectory& trajectory, uint32_t t, bool right, int64_t now);
  void AddCall(v1::Turn& turn, bool right);
  void AddText(google::protobuf::RepeatedField<uint32_t>& ids, const std::string& text);

  const SampleOptions options_;
  Random random_;
  SampleClock clock_;
  const std::string name_;
  std::optional<RunDirectory> directory_;
  std::unique_ptr<RunDb> db_;
  std::optional<SampleMetrics> metrics_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<StoreOp>> ops_;
  std::vector<int64_t> slot_free_ms_;
  int64_t train_end_ms_ = 0;
  uint32_t next_task_ = 0;
  std::optional<GroupEvaluation> evaluation_;  // under way
  uint64_t group_ = 0, step_ = 0, episodes_ = 0, stale_ = 0, retries_ = 0, eval_solved_ = 0;
  uint64_t cases_ = 0;
};

inline void WriteSampleRun(const std::string& folder, const std::string& name,
                           const SampleOptions& options) {
  SampleRun(folder, name, options).WriteAll();
}

}  // namespace tidemill
