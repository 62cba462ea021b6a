// What a worker of a run must know before it can work, written by the learner where every worker
// looks: the key {RUN}:sheet on the run's Redis. It has the whole config, so that only the learner
// is given one, and where the weights are.
//
//   learner --SheetKeeper, every 2 s--> {RUN}:sheet --> rollout, tools, reward
//   rollout --asks--> {RUN}:files --> learner writes weights to files as well
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "bus/redis/redis_client.h"
#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

struct RunSheet {
  std::string run;
  std::string config;          // as TOML, every key; paths absolute
  std::string program;         // its version, for people
  uint32_t messages = 0;       // version of the messages, core/version.h
  std::string host;            // for people
  std::string shm_domain;      // see weights/shm_weights.h
  int64_t pid = 0;             // in that domain
  uint64_t version = 0;        // the first it published; a run that goes on begins above all before
  uint64_t incarnation = 0;    // of this learner; another one, and the weights are elsewhere
  std::string shm;             // where the weights are in memory; empty: nowhere
  std::string weights_folder;  // and in files, once somebody asked

  std::string ToJson() const;
  // kInvalid names the field.
  static Result<RunSheet> FromJson(std::string_view json);
};

// Belongs to one thread.
class SheetBoard {
 public:
  static Result<SheetBoard> Connect(const std::string& url, const std::string& run,
                                    Duration timeout = std::chrono::seconds(5));

  // None: no learner is there.
  Result<std::optional<RunSheet>> Read();
  // Lasts `time`, unless it is written again.
  Status Write(const RunSheet& sheet, Duration time);
  Status Clear();

  // A worker that cannot share the learner's memory says so, at least once a minute.
  Status AskForFiles();
  Result<bool> FilesAsked();

 private:
  SheetBoard(RedisClient client, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)) {}
  RedisClient client_;
  std::string prefix_;
};

// Waits for a learner. kClosed: asked to stop first. kInvalid: the run speaks other messages than
// this program.
Result<RunSheet> WaitForSheet(SheetBoard& board, const std::string& run);

// Makes sure that no other learner works on the run. One on this host is asked for by its process
// number, one elsewhere is given the time in which its sheet would vanish. kUnavailable names it.
Status WaitForSeat(SheetBoard& board);

// While it lives, the sheet is there.
class SheetKeeper {
 public:
  // `on_files_asked` is called on a thread of its own, whenever files were asked for.
  SheetKeeper(SheetBoard board, RunSheet sheet, std::function<void()> on_files_asked);
  // Takes the sheet away.
  ~SheetKeeper();

 private:
  void Run();

  SheetBoard board_;  // the thread's, once it runs
  const RunSheet sheet_;
  const std::function<void()> on_files_asked_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;   // guarded by mutex_
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tidemill
