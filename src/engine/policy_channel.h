// A policy beside the main one as a channel of weights: what its trainer publishes goes to the
// engine, which takes it between two of its steps and pauses nobody.
//
//   trainer -> Publish -> EnginePort::Publish -> the engine's answer
#pragma once

#include <future>
#include <memory>
#include <utility>

#include "core/mutex.h"
#include "engine/engine_port.h"
#include "weights/weight_channel.h"

namespace tidemill {

// Thread-safe; one thread publishes. The engine must outlive it.
class PolicyChannel final : public WeightChannel {
 public:
  PolicyChannel(EnginePort& engine, PolicyId policy) : engine_(engine), policy_(policy) {}

  // Returns when the policy's next tokens are drawn from the weights, so that whoever hears of the
  // version can rely on it. Fails as EnginePort::Publish.
  Status Publish(PublishedWeights weights) override {
    // Shared: the engine's thread may still be inside of set_value when this one goes on.
    auto answer = std::make_shared<std::promise<Status>>();
    std::future<Status> answered = answer->get_future();
    engine_.Publish({policy_, weights.version}, weights.weights,
                    [answer](Status status) { answer->set_value(std::move(status)); });
    TM_RETURN_IF_ERROR(answered.get());
    MutexLock lock(mutex_);
    newest_ = std::move(weights);
    return Ok();
  }
  Result<PublishedWeights> NewerThan(uint64_t have) override {
    MutexLock lock(mutex_);
    return newest_.version > have ? newest_ : PublishedWeights();
  }

 private:
  EnginePort& engine_;
  const PolicyId policy_;
  Mutex mutex_;
  PublishedWeights newest_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
