// What a learner works with: its trainer, its teacher, and the keys of its memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "judge/http_judge_port.h"
#include "learner/frozen_trainer.h"
#include "learner/torch/trainer_thread.h"
#include "memory/torch/model_keys.h"
#include "run/process.h"
#include "run/torch/fsdp_trainer.h"
#include "run/torch/judge_models.h"
#include "teacher/torch/model_teacher.h"

namespace tidemill {

class StoreHost;

class LearnerHost final : public Host {
 public:
  explicit LearnerHost(Process& process) : process_(process) {}
  // Lets go of the weights to start from.
  Status Open(StoreHost* store);

  std::vector<PortUse> Usage(Time now) const override;
  // With memory.only: the weights are as they were at the start.
  Status Watch() override;

 private:
  Status OpenTeacher(StoreHost& store);
  Status OpenTeacherEndpoint();
  Result<TeacherWeights> TeacherWeightsFrom(StoreHost& store);
  Status OpenKeys(StoreHost& store);
  Status OpenCurator();
  Status OpenTrainers(StoreHost& store);
  Status OpenFsdp(StoreHost& store, const TrainerStart& start);

  Process& process_;
  std::unique_ptr<TeacherPort> teacher_;                  // where the objective distils
  const BusyMeter* teacher_busy_ = nullptr;               // of one in this process
  std::unique_ptr<ModelKeys> keys_;                       // where memory goes by hidden states
  JudgeModels curator_models_;                            // of a curator in this process
  std::unique_ptr<HttpJudgePort> curator_;                // of skills, where there is one
  std::vector<std::unique_ptr<TrainerThread>> trainers_;  // one for each policy that is trained
  std::unique_ptr<RemoteTrainer> fsdp_;                   // with learner.backend = fsdp2 instead
  // With memory.only instead: weights that nobody changes.
  std::unique_ptr<FrozenTrainer> frozen_;
  std::shared_ptr<const PolicyWeights> frozen_weights_;
  std::string frozen_digest_;  // of the weights at the start
  Time check_frozen_at_ = Time::min();
};

}  // namespace tidemill
