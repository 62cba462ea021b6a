#include "weights/weight_carrier.h"

#include <utility>

#include "core/log.h"
#include "core/threads.h"

namespace tidemill {

WeightCarrier::WeightCarrier(std::string way, Open open)
    : way_(std::move(way)), open_(std::move(open)), thread_([this] { Run(); }) {}

WeightCarrier::~WeightCarrier() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void WeightCarrier::Carry(std::shared_ptr<const TravellingWeights> weights) {
  MutexLock lock(mutex_);
  waiting_ = std::move(weights);
  changed_.NotifyAll();
}

void WeightCarrier::Flush() {
  MutexLock lock(mutex_);
  changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return !busy_ && waiting_ == nullptr; });
}

CarrierFigures WeightCarrier::figures() const {
  MutexLock lock(mutex_);
  return figures_;
}

void WeightCarrier::Run() {
  NameThisThread("weights " + way_);
  MutexLock lock(mutex_);
  while (true) {
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stop_ || waiting_ != nullptr; });
    if (stop_) return;
    const auto weights = std::move(waiting_);
    waiting_ = nullptr;
    busy_ = true;
    lock.Unlock();
    const auto began = std::chrono::steady_clock::now();
    const Status status = Deliver(*weights);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    // Those who wait for it keep what they have.
    if (!status.ok()) {
      LogWarn("could not publish weights",
              {{"way", way_}, {"version", weights->version}, {"why", status.message()}});
    }
    if (status.ok()) LogArrival(*weights, sink_->figures(), took.count());
    lock.Lock();
    busy_ = false;
    if (status.ok()) {
      figures_ = {.versions = figures_.versions + 1,
                  .version = weights->version,
                  .put = sink_->figures(),
                  .seconds = took.count(),
                  .bytes_total = figures_.bytes_total + sink_->figures().bytes};
    }
    changed_.NotifyAll();
  }
}

void WeightCarrier::LogArrival(const TravellingWeights& weights, const PutFigures& put,
                               double seconds) const {
  LogInfo("published weights", {{"way", way_},
                                {"version", weights.version},
                                {"bytes", put.bytes},
                                {"whole", put.whole},
                                {"density", put.density},
                                {"seconds", seconds}});
}

Status WeightCarrier::Deliver(const TravellingWeights& weights) {
  if (sink_ == nullptr) {
    TM_ASSIGN_OR_RETURN(std::unique_ptr<ObjectPlace> place, open_());
    TM_ASSIGN_OR_RETURN(sink_, VersionLogSink::Create(std::move(place)));
  }
  return sink_->Put(weights.version, weights.step, *weights.encoded.parts);
}

}  // namespace tidemill
