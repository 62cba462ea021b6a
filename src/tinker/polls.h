// Clients that wait for a promise: each request is held until the result is there or its time is
// up.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "http/http_reply.h"

namespace tidemill {

struct Poll {
  std::string promise;
  std::string tenant;
  bool binary = false;  // the client reads protobuf
  std::unique_ptr<HttpReply> reply;
};

// Thread-safe.
class Polls {
 public:
  explicit Polls(size_t polls_max) : polls_max_(polls_max) {}

  // Null: taken. Else there is no room, and the poll is given back.
  std::unique_ptr<Poll> Add(std::unique_ptr<Poll> poll, Time until);
  // Those that wait for the promise.
  std::vector<std::unique_ptr<Poll>> Take(const std::string& promise);
  // Those whose time is up.
  std::vector<std::unique_ptr<Poll>> TakeDue(Time now);

 private:
  struct Held {
    Time until;
    std::unique_ptr<Poll> poll;
  };
  const size_t polls_max_;
  Mutex mutex_;
  std::multimap<std::string, Held> waiting_ TM_GUARDED_BY(mutex_);
  std::multimap<Time, const Poll*> times_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
