#include "learner/torch/rank_follower.h"

#include "model/torch/aten.h"
#include "model/torch/host_copy.h"
#include "weights/weight_wire.h"

namespace tidemill {
namespace {

Status TakeStep(const RankOrder& order, Trainer& trainer) {
  v1::Batch batch;
  if (!batch.ParseFromString(order.payload)) return Corrupt("a step without a batch");
  return trainer.Train(batch).status();
}

}  // namespace

uint64_t Fingerprint(const Trainer& trainer) {
  WeightChecksum sum;
  const auto add = [&](const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor host = HostCopy(tensor.detach());
      sum.Add(reinterpret_cast<const std::byte*>(name.data()), name.size());
      sum.Add(static_cast<const std::byte*>(host.data_ptr()), host.nbytes());
    }
  };
  add(trainer.Leaves());
  add(trainer.SharedOptimizerState());
  const uint64_t counts[] = {trainer.optimizer_steps(), trainer.progress().steps};
  sum.Add(reinterpret_cast<const std::byte*>(counts), sizeof counts);
  return sum.Value();
}

Status FollowOrders(RankGroup& ranks, Trainer& trainer) {
  trainer.Share(&ranks);
  Status status = ranks.Agree(Fingerprint(trainer));
  while (status.ok()) {
    const Result<RankOrder> order = ranks.Next();
    if (!order.ok()) return order.status();
    switch (order->kind) {
      case RankOrder::kIdle:
        break;
      case RankOrder::kStep:
        status = TakeStep(*order, trainer);
        break;
      case RankOrder::kPublished:
        trainer.NotePublished(order->number, order->step);
        break;
      case RankOrder::kVerify:
        status = ranks.Agree(Fingerprint(trainer));
        break;
      case RankOrder::kStop:
        return Ok();
      default:
        status = Corrupt("an order that does not exist here");
    }
  }
  if (status.code() != Code::kUnavailable) ranks.Fail(status);
  return status;
}

Status OrderStep(RankGroup& ranks, const v1::Batch& batch) {
  RankOrder order{RankOrder::kStep, 0, batch.step(), {}};
  if (!batch.SerializeToString(&order.payload)) {
    return Invalid("the batch is too large to be sent to the other ranks");
  }
  return ranks.Send(order);
}

Status OrderPublished(RankGroup& ranks, uint64_t version, uint64_t step) {
  return ranks.Send({RankOrder::kPublished, version, step, {}});
}

Status OrderVerify(RankGroup& ranks, const Trainer& trainer) {
  TM_RETURN_IF_ERROR(ranks.Send({RankOrder::kVerify, 0, 0, {}}));
  return ranks.Agree(Fingerprint(trainer));
}

}  // namespace tidemill
