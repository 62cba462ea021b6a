#include "learner/torch/trainer.h"

#include "learner/torch/trainer_impl.h"
#include "model/torch/catch.h"
#include "model/torch/device.h"

namespace tidemill {
namespace {

bool Narrow(const NamedTensors& parameters) {
  return !parameters.empty() && parameters.begin()->second.scalar_type() == at::kBFloat16;
}

// `body`, which returns a Result<T>, on the learner's share of its GPU.
template <typename T, typename Body>
Result<T> OnShare(std::string_view what, const LearnerShare& share, Body&& body) {
  return CatchTorch<T>(what, [&]() -> Result<T> {
    const LearnerShare::Use use(share);
    return body();
  });
}

}  // namespace

Status ValidateTrainerOptions(const TrainerOptions& o) {
  TM_RETURN_IF_ERROR(ValidateObjective(o.objective));
  TM_RETURN_IF_ERROR(ValidateCredit(o.credit));
  TM_RETURN_IF_ERROR(ValidateSchedule(o.schedule));
  if (o.minibatches == 0) return Invalid("there must be at least 1 minibatch a step");
  if (o.epochs == 0) return Invalid("there must be at least 1 epoch a step");
  if (o.microbatch_tokens < 1) return Invalid("a microbatch must have at least 1 token");
  if (!(o.grad_clip >= 0)) return Invalid("the largest gradient norm must be at least 0 (0: off)");
  if (!(o.product_most >= 0))
    return Invalid("a product must have at least 0 operations (0: no bound)");
  if (o.reserve_multiprocessors < 0)
    return Invalid("the number of reserved multiprocessors must be at least 0 (0: none)");
  if (!(o.spike_factor > 1)) return Invalid("the factor of a gradient spike must be above 1");
  return Ok();
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::New(const std::shared_ptr<const PolicyWeights>& weights,
                                              const TrainerOptions& options,
                                              std::shared_ptr<const PolicyWeights> reference) {
  TM_RETURN_IF_ERROR(ValidateTrainerOptions(options));
  if (options.objective.NeedsReference() && reference == nullptr) {
    return Invalid("the objective has a KL term (kl_coefficient " +
                   std::to_string(options.objective.kl_coefficient) +
                   ") but there is no reference model");
  }
  if (!options.objective.NeedsReference()) reference = nullptr;
  LearnerShare share(weights->view().embed.device(), options.reserve_multiprocessors);
  if (share.status().code() == Code::kInvalid) {
    return share.status().WithContext("learner.reserve_multiprocessors");
  }
  return OnShare<std::unique_ptr<Trainer>>("making a trainer", share, [&] {
    return NewOnShare(weights, options, std::move(reference), share);
  });
}

Result<std::unique_ptr<Trainer>> Trainer::NewOnShare(
    const std::shared_ptr<const PolicyWeights>& weights, const TrainerOptions& options,
    std::shared_ptr<const PolicyWeights> reference, const LearnerShare& share) {
  const bool narrow = options.adamw.moments_in_blocks && OnGpu(weights->view().embed);
  auto model = weights->adapter() != nullptr ? TrainableModel::FromAdapter(weights)
                                             : TrainableModel::FromWeights(*weights, narrow);
  if (!model.ok()) return model.status();
  (*model)->BoundProducts(options.product_most);
  std::unique_ptr<Trainer> trainer(
      new Trainer(std::make_unique<Impl>(std::move(*model), options, std::move(reference), share)));
  TM_RETURN_IF_ERROR(trainer->impl_->ToChange().optimizer.TakeHostMemory(trainer->Leaves()));
  TM_RETURN_IF_ERROR(trainer->TakeExact(*weights));
  return trainer;
}

Result<TrainReport> Trainer::Train(const v1::Batch& batch) {
  return OnShare<TrainReport>("training", impl_->share(), [&] { return impl_->Train(batch); });
}

Result<std::shared_ptr<const PolicyWeights>> Trainer::Snapshot() const {
  return OnShare<std::shared_ptr<const PolicyWeights>>("copying the weights", impl_->share(), [&] {
    return impl_->scorer().model().Snapshot(impl_->options().publish_dtype);
  });
}
Result<std::shared_ptr<const PolicyWeights>> Trainer::ExactSnapshot() const {
  const TrainableModel& model = impl_->scorer().model();
  using Made = std::shared_ptr<const PolicyWeights>;
  return OnShare<Made>("copying the weights", impl_->share(), [&]() -> Result<Made> {
    if (!Narrow(model.parameters())) return model.Snapshot(Dtype::kF32);
    return PolicyWeights::FromTensors(model.config(), impl_->optimizer().Exact(model.parameters()));
  });
}
Status Trainer::TakeExact(const PolicyWeights& weights) {
  if (!Narrow(Parameters())) return Ok();
  TM_RETURN_IF_ERROR(ArrangeTensors(config(), weights.tensors(), nullptr).status());
  return CatchTorchStatus("taking the weights", [&] {
    const LearnerShare::Use use(impl_->share());
    const Impl::Changeable changed = impl_->ToChange();
    changed.optimizer.TakeExact(changed.model.parameters(), weights.tensors());
    return Ok();
  });
}

void Trainer::Share(RankGroup* ranks) {
  impl_->Share(ranks);
}
void Trainer::RepeatBudgets(std::map<uint64_t, int64_t> budgets) {
  impl_->RepeatBudgets(std::move(budgets));
}
const NamedTensors& Trainer::Leaves() const {
  return impl_->scorer().leaves();
}

void Trainer::NotePublished(uint64_t version, uint64_t step) {
  impl_->progress().versions.Published(version, step);
}

const ModelConfig& Trainer::config() const {
  return impl_->scorer().model().config();
}
const TrainerOptions& Trainer::options() const {
  return impl_->options();
}
const TrainerProgress& Trainer::progress() const {
  return impl_->progress();
}
bool Trainer::lora() const {
  return impl_->scorer().model().lora();
}
bool Trainer::fused() const {
  return impl_->scorer().fused();
}
int Trainer::multiprocessors() const {
  return impl_->share().multiprocessors();
}
NamedTensors Trainer::ValueHead() const {
  return impl_->scorer().ValueHead();
}
NamedTensors Trainer::OptimizerState() const {
  return impl_->optimizer().State();
}
NamedTensors Trainer::SharedOptimizerState() const {
  return impl_->optimizer().SharedState();
}
const NamedTensors& Trainer::Parameters() const {
  return impl_->scorer().model().parameters();
}
const LoraAdapter* Trainer::adapter() const {
  return impl_->scorer().model().adapter().get();
}
uint64_t Trainer::optimizer_steps() const {
  return impl_->optimizer().steps();
}
SnapshotGate& Trainer::gate() {
  return impl_->gate();
}

Status Trainer::Restore(const NamedTensors& parameters, const NamedTensors& value_head,
                        const NamedTensors& optimizer, uint64_t optimizer_steps,
                        const TrainerProgress& progress) {
  return CatchTorchStatus("restoring the trainer", [&] {
    const LearnerShare::Use use(impl_->share());
    return impl_->Restore(parameters, value_head, optimizer, optimizer_steps, progress);
  });
}

}  // namespace tidemill
