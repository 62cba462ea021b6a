// One client's stream of server-sent events, as seen by whoever has something to tell it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.h"

namespace tidemill {

// Thread-safe. Bounded: a client that does not keep up is dropped, and comes back by itself.
class EventStream {
 public:
  // `wake` is called when frames wait, at most once until they are taken; never after Close.
  EventStream(size_t bytes_max, std::function<void()> wake)
      : bytes_max_(bytes_max), wake_(std::move(wake)) {}

  // `frame` is a whole event as MakeEvent gives it; shared because many clients get the same.
  // False: the stream is closed, by the client or because it fell behind.
  bool Send(std::shared_ptr<const std::string> frame);
  bool closed() const;

  // For the connection: everything that waits, and the end.
  std::vector<std::shared_ptr<const std::string>> Take();
  void Close();
  bool fell_behind() const;

 private:
  const size_t bytes_max_;
  mutable Mutex mutex_;
  std::function<void()> wake_ TM_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const std::string>> queue_ TM_GUARDED_BY(mutex_);
  size_t bytes_ TM_GUARDED_BY(mutex_) = 0;
  bool closed_ TM_GUARDED_BY(mutex_) = false;
  bool fell_behind_ TM_GUARDED_BY(mutex_) = false;
};

// "event: NAME\nid: ID\ndata: DATA\n\n". `data` has no line breaks; an empty id leaves the field
// out.
std::shared_ptr<const std::string> MakeEvent(std::string_view name, std::string_view id,
                                             std::string_view data);

}  // namespace tidemill
