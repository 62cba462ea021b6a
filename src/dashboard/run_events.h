// Live updates: follows the metrics of the runs somebody watches and sends each new line to all who
// do.
//
//   runs/NAME/metrics.jsonl -> one reader thread -> one frame -> every stream of that run
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "http/event_stream.h"
#include "http/http_message.h"

namespace tidemill {

// Thread-safe.
class RunEvents {
 public:
  struct Options {
    std::string folder = "runs";
    std::chrono::milliseconds poll_every{500};
    size_t catch_up_bytes_max = 256 * 1024;  // more behind: the client is told to load afresh
  };
  explicit RunEvents(Options options);
  ~RunEvents();

  // `run=NAME` says which; Last-Event-ID (or `after`) is the offset in metrics.jsonl of what the
  // client has. Events: "hello" {"run", "state"}, one of the kind of each line, "state" when it
  // changes, "reset" when the client has missed more than can be told.
  Status Open(const HttpRequest& request, std::shared_ptr<EventStream> stream);

  // One round of reading; the thread calls it, and so may tests.
  void Poll();

 private:
  struct Watched {
    uint64_t offset = 0;
    std::string state;
    std::vector<std::shared_ptr<EventStream>> streams;  // shared with their connections
  };
  void Follow(const std::string& name, Watched& run);
  void Run();

  const Options options_;
  Mutex mutex_;
  CondVar wake_;
  std::map<std::string, Watched> runs_ TM_GUARDED_BY(mutex_);  // only runs with streams
  uint64_t polls_ TM_GUARDED_BY(mutex_) = 0;
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tidemill
