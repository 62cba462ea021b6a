// The tools' port: threads that carry out requests in boxes. One thread a slot; gradings have their
// own.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/ids.h"
#include "core/metrics.h"
#include "core/mutex.h"
#include "store/blobs.h"
#include "tools/box/box_host.h"
#include "tools/box/box_pool.h"
#include "tools/box/kept_boxes.h"
#include "tools/mcp_servers.h"
#include "tools/tool_options.h"
#include "tools/tool_port.h"
#include "tools/tool_runner.h"

namespace tidemill {

struct ToolExecutorOptions {
  ToolOptions tools;
  BoxHostOptions boxes;
  size_t slots = 0;        // agents' calls at once; 0: as many as cores
  size_t grade_slots = 0;  // gradings at once; 0: as many as cores
  size_t pool = 0;         // boxes kept ready; 0: one for each slot of either kind
  Duration kept_idle =
      std::chrono::seconds(60);  // how long a box waits for its episode's next call
  std::string roots;             // folder of unpacked root file systems; empty: the user's cache
  size_t shells = 256;           // boxes of the tool "bash" at once, one an episode
  Duration shell_idle = std::chrono::minutes(30);  // after which one may make room for another
  Metrics* metrics = nullptr;                      // may be null; must outlive the executor
};

class ToolExecutor final : public ToolPort {
 public:
  // kInvalid: the options; kUnavailable: no box can run here, with the cause. `blobs` may be null.
  static Result<std::unique_ptr<ToolExecutor>> Create(ToolExecutorOptions options, BlobStore* blobs,
                                                      const Clock& clock);
  // Cancels what runs and waits until its boxes are gone.
  ~ToolExecutor() override;

  size_t capacity(ToolLane lane) const override;
  // Requests carried out at once; capacity() has room for as many again, so that no slot waits for
  // the bus.
  size_t slots(ToolLane lane) const {
    return lane == ToolLane::kGrade ? options_.grade_slots : options_.slots;
  }
  void Submit(v1::ToolRequest request, uint64_t tag) override;
  void Cancel(const v1::TrajectoryId& episode) override;
  void CancelOne(uint64_t tag) override;
  Mailbox<ToolCompletion>& completions() override { return *completions_; }

  BoxHost& host() { return *host_; }
  BoxPool& pool() { return *pool_; }
  // Working time of all slots so far.
  Duration Busy(Time now) const;
  // Boxes that wait for their episode's next call.
  size_t kept_boxes() const { return kept_.size(); }
  // The same of the tool "bash".
  size_t shell_boxes() const { return shells_.size(); }

 private:
  struct Job {
    v1::ToolRequest request;
    uint64_t tag = 0;
    std::shared_ptr<Cancellation> cancellation;  // shared: Cancel may come while the job ends
  };
  struct Lane {
    std::deque<Job> queue;
    size_t under_way = 0;
    CondVar arrived;  // a job, or the end
  };

  ToolExecutor(ToolExecutorOptions options, BlobStore* blobs, const Clock& clock);
  void Start();
  void Work(ToolLane lane, size_t slot);
  v1::ToolResult Carry(const Job& job);
  void Count(const v1::ToolResult& result);

  ToolExecutorOptions options_;
  BlobStore* blobs_;
  const Clock& clock_;
  std::unique_ptr<BoxHost> host_;
  KeptBoxes kept_;
  ShellBoxes shells_;
  std::unique_ptr<BoxPool> pool_;
  std::unique_ptr<RootPools> roots_;
  std::unique_ptr<McpServers> servers_;
  std::unique_ptr<ToolRunner> runner_;
  std::unique_ptr<Mailbox<ToolCompletion>> completions_;
  std::deque<BusyMeter> busy_;  // one a slot

  Mutex mutex_;
  Lane lanes_[kToolLanes] TM_GUARDED_BY(mutex_);
  // The calls that wait or run, by tag.
  std::map<uint64_t, std::pair<TrajectoryKey, std::shared_ptr<Cancellation>>> under_way_
      TM_GUARDED_BY(mutex_);
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tidemill
