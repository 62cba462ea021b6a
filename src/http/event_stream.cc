#include "http/event_stream.h"

#include <utility>

namespace tidemill {

bool EventStream::Send(std::shared_ptr<const std::string> frame) {
  MutexLock lock(mutex_);
  if (closed_) return false;
  if (bytes_ + frame->size() > bytes_max_) {
    closed_ = true;
    fell_behind_ = true;
    queue_.clear();
    wake_();  // so that the connection is closed
    wake_ = nullptr;
    return false;
  }
  const bool first = queue_.empty();
  bytes_ += frame->size();
  queue_.push_back(std::move(frame));
  if (first) wake_();
  return true;
}

bool EventStream::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

std::vector<std::shared_ptr<const std::string>> EventStream::Take() {
  MutexLock lock(mutex_);
  bytes_ = 0;
  return std::exchange(queue_, {});
}

void EventStream::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  queue_.clear();
  wake_ = nullptr;
}

bool EventStream::fell_behind() const {
  MutexLock lock(mutex_);
  return fell_behind_;
}

std::shared_ptr<const std::string> MakeEvent(std::string_view name, std::string_view id,
                                             std::string_view data) {
  std::string frame;
  frame.reserve(name.size() + id.size() + data.size() + 32);
  frame.append("event: ").append(name).append("\n");
  if (!id.empty()) frame.append("id: ").append(id).append("\n");
  frame.append("data: ").append(data).append("\n\n");
  return std::make_shared<const std::string>(std::move(frame));
}

}  // namespace tidemill
