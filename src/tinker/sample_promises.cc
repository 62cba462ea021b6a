#include "tinker/sample_promises.h"

namespace tidemill {

Result<SamplePromises::Made> SamplePromises::Make(const std::string& tenant, uint32_t tenant_max,
                                                  const std::string& sampler, uint64_t seq) {
  MutexLock lock(mutex_);
  Key key{sampler, seq};
  if (const auto it = by_key_.find(key); it != by_key_.end()) {
    return Made{.id = it->second, .fresh = false};
  }
  size_t& own = waiting_of_[tenant];
  const bool too_many = waiting_ >= limits_.waiting_max || own > limits_.waiting_max - waiting_ ||
                        (tenant_max > 0 && own >= tenant_max);
  if (too_many) {
    return Full(std::to_string(own) + " samples of this key wait; try again when some are done");
  }
  std::string id = "s." + mark_ + "." + std::to_string(next_++);
  by_key_.emplace(key, id);
  promises_.emplace(id, Promise{tenant, std::move(key), {}, {}, done_.end()});
  ++waiting_;
  ++own;
  return Made{.id = std::move(id), .fresh = true};
}

void SamplePromises::Forget(std::map<std::string, Promise>::iterator it) {
  Promise& promise = it->second;
  bytes_ -= promise.result.body.size();
  done_.erase(promise.place);
  by_key_.erase(promise.key);
  promises_.erase(it);
}

void SamplePromises::Finish(const std::string& id, OpResult result, Time now) {
  MutexLock lock(mutex_);
  const auto it = promises_.find(id);
  if (it == promises_.end() || it->second.result.done) return;
  Promise& promise = it->second;
  --waiting_;
  const auto own = waiting_of_.find(promise.tenant);
  if (--own->second == 0) waiting_of_.erase(own);
  promise.result = std::move(result);
  promise.finished = now;
  promise.place = done_.insert(done_.end(), id);
  bytes_ += promise.result.body.size();
  // The newest stays, whatever its size.
  while (bytes_ > limits_.bytes_max && done_.size() > 1) Forget(promises_.find(done_.front()));
}

std::optional<OpResult> SamplePromises::Find(const std::string& id,
                                             const std::string& tenant) const {
  MutexLock lock(mutex_);
  const auto it = promises_.find(id);
  if (it == promises_.end() || it->second.tenant != tenant) return std::nullopt;
  return it->second.result;
}

void SamplePromises::ForgetOld(Time now) {
  MutexLock lock(mutex_);
  while (!done_.empty()) {
    const auto it = promises_.find(done_.front());
    if (now - it->second.finished < limits_.keep) return;
    Forget(it);
  }
}

size_t SamplePromises::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

size_t SamplePromises::waiting() const {
  MutexLock lock(mutex_);
  return waiting_;
}

}  // namespace tidemill
