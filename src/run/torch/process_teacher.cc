// The teacher of a process: a model in it, or one behind an endpoint.
#include "model/torch/device.h"
#include "run/loop_options.h"
#include "run/torch/process_ports.h"
#include "teacher/http_teacher.h"

namespace tidemill {

// Before the trainer: a teacher that does not fit is refused before anything is trained.
Status ProcessPorts::OpenTeacher(const RunStart& start) {
  TM_ASSIGN_OR_RETURN(const ObjectiveConfig objective, ObjectiveFrom(config_));
  if (!objective.NeedsTeacher() || config_.memory.only) return Ok();
  if (!config_.teacher.endpoint.empty()) return OpenTeacherEndpoint();
  TM_ASSIGN_OR_RETURN(TeacherWeights weights, TeacherWeightsFrom(start));
  ModelTeacherOptions options;
  options.threads = threads_.trainer;
  options.batch_tokens = config_.teacher.batch_tokens;
  options.max_outstanding = config_.teacher.concurrency;
  options.bfloat16 = IsGpu(config_.model.device);
  auto made = std::make_unique<ModelTeacher>(std::move(weights), clock_, options);
  teacher_busy_ = &made->busy();
  teacher_ = std::move(made);
  ports_.teacher = teacher_.get();
  return Ok();
}

// Those of a directory, or of the policy as it was published last.
Result<TeacherWeights> ProcessPorts::TeacherWeightsFrom(const RunStart& start) {
  if (config_.teacher.policy) {
    return TeacherWeights(
        [channel = channel_.get(), now = weights_, version = start.version]() mutable {
          if (auto newer = channel->NewerThan(version); newer.ok() && newer->weights != nullptr) {
            version = newer->version;
            now = ToPolicyWeights(std::move(newer->weights));
          }
          return now;
        });
  }
  const LoadOptions load{.device = config_.model.device,
                         .dtype = IsGpu(config_.model.device) ? Dtype::kBF16 : Dtype::kF32};
  auto weights =
      LoadTeacher(config_.teacher.model, load, *tokenizer_, static_cast<int64_t>(start.context));
  if (!weights.ok()) return weights.status().WithContext("teacher.model");
  return TeacherWeights([fixed = std::move(*weights)] { return fixed; });
}

Status ProcessPorts::OpenTeacherEndpoint() {
  if (config_.rollout.temperature != 1) {
    return Invalid("teacher.endpoint: scores at temperature 1, but rollout.temperature is " +
                   std::to_string(config_.rollout.temperature));
  }
  TM_ASSIGN_OR_RETURN(teacher_, HttpTeacher::Make(config_.teacher, *tokenizer_));
  ports_.teacher = teacher_.get();
  return Ok();
}

}  // namespace tidemill
