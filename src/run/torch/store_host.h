// What a run has and begins with, in the process of its learner: tasks, database, the weights to
// start from and the channel on which newer ones are published.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/live_run.h"
#include "memory/case_shelf.h"
#include "model/torch/model.h"
#include "run/policies.h"
#include "run/process.h"
#include "skills/skill_folder.h"
#include "store/store_thread.h"
#include "weights/weight_channel.h"

namespace tidemill {

class StoreHost final : public Host {
 public:
  explicit StoreHost(Process& process) : process_(process) {}
  Status Open();
  // kInvalid: a prompt leaves no room in the context; its episodes would all be given up.
  Status CheckPrompts() const;

  const std::vector<v1::Task>& train_tasks() const { return train_tasks_; }
  BlobStore* blobs() const { return blobs_.get(); }
  StoreThread& store() { return *store_; }
  // One more client of the store.
  StorePort& NewClient();
  WeightChannel& channel() { return *channel_; }
  const CasesState& cases() const { return cases_; }
  CaseShelf* shelf() const { return shelf_.get(); }  // null: there is no memory
  // What an earlier process left of its sessions; empty without live.on. May be taken.
  std::optional<LiveRun::Earlier>& earlier_sessions() { return earlier_sessions_; }

  const v1::ReleaseState& earlier_release() const { return earlier_release_; }  // with live.release

  // To start from, of the default policy; whole sets of weights are large. Null once they were
  // forgotten.
  const std::shared_ptr<const PolicyWeights>& weights() const { return weights_; }
  void ForgetWeights();
  // Those that the config names, the default one first where it is among them.
  struct Hosted {
    RunPolicy policy;
    std::shared_ptr<const PolicyWeights> weights{};
    std::string checkpoint{};               // gone on from; empty: none
    std::map<uint64_t, int64_t> budgets{};  // of its steps that are taken again
    PolicyStart start{};
  };
  const std::vector<Hosted>& policies() const { return policies_; }

  std::vector<PortUse> Usage(Time now) const override {
    return {{"store", store_->busy().Busy(now), 1}};
  }
  std::map<std::string, double> Levels() const override;
  void Sink(MetricSink& sink) const override;

 private:
  Status ReadTasks();
  Status Prepare(const std::string& file, std::vector<v1::Task>* tasks);
  Status OpenStore();
  Status ReadResumed(RunDb& db);
  Status ReadStart();
  Status ReadPolicies();
  Status NumberVersions(RunDb& db);
  Status OpenSkills(RunDb& db);
  Status OpenChannel();

  Process& process_;
  std::unique_ptr<BlobStore> blobs_;
  std::vector<v1::Task> train_tasks_, eval_tasks_;
  TaskBook book_;
  std::shared_ptr<const PolicyWeights> weights_;
  std::vector<Hosted> policies_;
  CasesState cases_;  // of memory, as earlier processes left it
  std::unique_ptr<CaseShelf> shelf_;
  std::optional<SkillsState> skills_;  // as earlier processes left them; with skills.on
  std::unique_ptr<SkillFolderThread> skill_folder_;
  std::optional<LiveRun::Earlier> earlier_sessions_;
  v1::ReleaseState earlier_release_;
  std::unique_ptr<StoreThread> store_;
  std::vector<std::unique_ptr<StorePort>> clients_;
  std::unique_ptr<WeightChannel> channel_;
};

}  // namespace tidemill
