#include "rollout/task_order.h"

#include <charconv>
#include <cmath>

#include "core/random.h"

namespace tidemill {

Result<TaskOrder> TaskOrder::Make(const std::vector<v1::Task>& tasks,
                                  const std::map<std::string, double>& tag_weights, uint64_t seed) {
  std::vector<double> weights;
  double total = 0;
  for (const v1::Task& task : tasks) {
    double weight = 1;
    for (const std::string& tag : task.tags()) {
      if (auto it = tag_weights.find(tag); it != tag_weights.end()) weight *= it->second;
    }
    if (!(weight >= 0) || !std::isfinite(weight)) {
      return Invalid("the tag weights give task \"" + task.id() + "\" the weight " +
                     std::to_string(weight) + "; it must be 0 or more");
    }
    weights.push_back(weight);
    total += weight;
  }
  if (tasks.empty()) return TaskOrder({}, seed);
  if (total <= 0) return Invalid("no task has a weight above 0");
  TaskOrder order(std::move(weights), seed);
  order.Shuffle();
  return order;
}

void TaskOrder::Shuffle() {
  do {  // an epoch of small weights may come out empty; the next one is drawn then
    order_.clear();
    Random random = Random(seed_).Split(epoch_);
    for (uint32_t i = 0; i < weights_.size(); ++i) {
      const double whole = std::floor(weights_[i]);
      const int times = static_cast<int>(whole) + (random.Chance(weights_[i] - whole) ? 1 : 0);
      order_.insert(order_.end(), times, i);
    }
    random.Shuffle(order_);
    if (order_.empty()) ++epoch_;
  } while (order_.empty());
  position_ = 0;
}

size_t TaskOrder::Next() {
  if (position_ == order_.size()) {
    ++epoch_;
    Shuffle();
  }
  return order_[position_++];
}

std::string TaskOrder::Cursor() const {
  return std::to_string(epoch_) + ":" + std::to_string(position_);
}

Status TaskOrder::Seek(const std::string& cursor) {
  uint64_t epoch = 0, position = 0;
  const char* end = cursor.data() + cursor.size();
  auto [colon, error] = std::from_chars(cursor.data(), end, epoch);
  if (error != std::errc() || colon == end || *colon != ':' ||
      std::from_chars(colon + 1, end, position).ptr != end) {
    return Invalid("the dispatcher's cursor \"" + cursor + "\" is not of the form epoch:position");
  }
  epoch_ = epoch;
  Shuffle();
  if (position > order_.size()) {
    return Invalid("the dispatcher's cursor \"" + cursor + "\" is beyond the last task; " +
                   "was the run started with other tasks?");
  }
  position_ = position;
  return Ok();
}

}  // namespace tidemill
