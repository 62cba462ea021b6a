#include "tinker/op_queue.h"

namespace tidemill {

void OpQueue::AddModel(const std::string& model, uint64_t next) {
  MutexLock lock(mutex_);
  lines_.try_emplace(model, Line{.next = next, .waiting = {}});
}

void OpQueue::DropModel(const std::string& model) {
  MutexLock lock(mutex_);
  lines_.erase(model);
}

void OpQueue::List(const std::string& model, Line& line) {
  if (line.busy || line.listed || !line.waiting.contains(line.next)) return;
  line.listed = true;
  ready_.push_back(model);
  changed_.NotifyOne();
}

Status OpQueue::Room(const std::string& model, uint64_t seq) const {
  MutexLock lock(mutex_);
  const auto it = lines_.find(model);
  if (it == lines_.end()) return NotFound("there is no model " + model);
  const Line& line = it->second;
  // The one that all others wait for always finds room.
  if (line.waiting.size() < waiting_max_ || seq <= line.next) return Ok();
  return Full("more than " + std::to_string(waiting_max_) + " operations of " + model +
              " wait; the next is number " + std::to_string(line.next));
}

void OpQueue::Add(const std::string& model, uint64_t seq) {
  MutexLock lock(mutex_);
  const auto it = lines_.find(model);
  if (it == lines_.end() || seq < it->second.next) return;
  it->second.waiting.insert(seq);
  List(model, it->second);
}

std::optional<OpQueue::Turn> OpQueue::Take() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stopping_ || !ready_.empty(); });
    if (stopping_) return std::nullopt;
    const std::string model = ready_.front();
    ready_.pop_front();
    const auto it = lines_.find(model);
    if (it == lines_.end() || !it->second.listed) continue;  // dropped, or dropped and added again
    it->second.listed = false;
    it->second.busy = true;
    return Turn{.model = model, .seq = it->second.next};
  }
}

void OpQueue::Done(const std::string& model) {
  MutexLock lock(mutex_);
  const auto it = lines_.find(model);
  if (it == lines_.end()) return;
  Line& line = it->second;
  line.busy = false;
  line.waiting.erase(line.next);
  ++line.next;
  List(model, line);
}

void OpQueue::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
}

size_t OpQueue::waiting() const {
  MutexLock lock(mutex_);
  size_t waiting = 0;
  for (const auto& [model, line] : lines_) waiting += line.waiting.size();
  return waiting;
}

}  // namespace tidemill
