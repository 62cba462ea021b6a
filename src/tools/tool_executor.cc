#include "tools/tool_executor.h"

#include <algorithm>

#include "core/enum_name.h"
#include "core/threads.h"
#include "tools/box/box.h"

namespace tidemill {
namespace {

size_t At(ToolLane lane) {
  return static_cast<size_t>(lane);
}

}  // namespace

ToolExecutor::ToolExecutor(ToolExecutorOptions options, BlobStore* blobs, const Clock& clock)
    : options_(std::move(options)),
      blobs_(blobs),
      clock_(clock),
      kept_(4 * options_.slots, options_.kept_idle),
      shells_(options_.shells, options_.shell_idle) {}

Result<std::unique_ptr<ToolExecutor>> ToolExecutor::Create(ToolExecutorOptions options,
                                                           BlobStore* blobs, const Clock& clock) {
  TM_RETURN_IF_ERROR(CheckToolOptions(options.tools));
  const size_t cores = static_cast<size_t>(AvailableCores());
  if (options.slots == 0) options.slots = cores;
  if (options.grade_slots == 0) options.grade_slots = cores;
  if (options.pool == 0) options.pool = options.slots + options.grade_slots;
  auto host = BoxHost::Create(options.boxes);
  if (!host.ok()) return host.status();
  std::unique_ptr<ToolExecutor> executor(new ToolExecutor(std::move(options), blobs, clock));
  executor->host_ = std::move(*host);
  executor->Start();
  return executor;
}

void ToolExecutor::Start() {
  pool_ = std::make_unique<BoxPool>(*host_, options_.pool);
  roots_ = std::make_unique<RootPools>(*pool_, options_.boxes, options_.roots);
  servers_ = std::make_unique<McpServers>(options_.tools.mcp);
  runner_ = std::make_unique<ToolRunner>(*pool_, *roots_, kept_, shells_, *servers_, blobs_, clock_,
                                         options_.tools);
  completions_ =
      std::make_unique<Mailbox<ToolCompletion>>(2 * (options_.slots + options_.grade_slots));
  for (const ToolLane lane : {ToolLane::kAgent, ToolLane::kGrade}) {
    for (size_t i = 0; i < slots(lane); ++i) {
      const size_t slot = busy_.size();
      busy_.emplace_back();
      threads_.emplace_back([this, lane, slot] { Work(lane, slot); });
    }
  }
}

ToolExecutor::~ToolExecutor() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& [tag, entry] : under_way_) entry.second->Cancel();
    for (Lane& lane : lanes_) lane.arrived.NotifyAll();
  }
  if (servers_ != nullptr) servers_->Stop();
  for (std::thread& thread : threads_) thread.join();
  kept_.DropAll();
  shells_.DropAll();
  runner_.reset();
  servers_.reset();
  roots_.reset();
  pool_.reset();
  host_.reset();
}

size_t ToolExecutor::capacity(ToolLane lane) const {
  return 2 * slots(lane);
}

void ToolExecutor::Submit(v1::ToolRequest request, uint64_t tag) {
  Job job;
  job.tag = tag;
  job.cancellation = std::make_shared<Cancellation>();
  const ToolLane lane = LaneOf(request);
  MutexLock lock(mutex_);
  TM_CHECK(lanes_[At(lane)].under_way < capacity(lane), "more tool requests than were agreed");
  const bool added =
      under_way_.try_emplace(tag, TrajectoryKey::From(request.episode()), job.cancellation).second;
  TM_CHECK(added, "a tag is under way already");
  job.request = std::move(request);
  ++lanes_[At(lane)].under_way;
  lanes_[At(lane)].queue.push_back(std::move(job));
  // One slot for one job: to wake all of them costs the tool loop more than all else it does.
  lanes_[At(lane)].arrived.NotifyOne();
}

void ToolExecutor::Cancel(const v1::TrajectoryId& episode) {
  const TrajectoryKey key = TrajectoryKey::From(episode);
  {
    MutexLock lock(mutex_);
    for (auto& [tag, entry] : under_way_) {
      if (entry.first == key) entry.second->Cancel();
    }
  }
  kept_.Drop(key);
  shells_.Drop(key);
}

void ToolExecutor::CancelOne(uint64_t tag) {
  MutexLock lock(mutex_);
  if (const auto it = under_way_.find(tag); it != under_way_.end()) it->second.second->Cancel();
}

void ToolExecutor::Work(ToolLane lane, size_t slot) {
  MutexLock lock(mutex_);
  Lane& mine = lanes_[At(lane)];
  for (;;) {
    mine.arrived.Wait(lock, [&]() TM_REQUIRES(mutex_) { return stopping_ || !mine.queue.empty(); });
    if (stopping_) return;
    Job job = std::move(mine.queue.front());
    mine.queue.pop_front();
    lock.Unlock();
    busy_[slot].Begin(clock_.Now());
    ToolCompletion completion{job.tag, Carry(job)};
    busy_[slot].End(clock_.Now());
    Count(completion.result);
    lock.Lock();
    under_way_.erase(job.tag);
    --mine.under_way;
    if (stopping_) return;
    // Without the lock: whoever is woken may submit the next request at once.
    lock.Unlock();
    completions_->Post(std::move(completion));
    lock.Lock();
  }
}

v1::ToolResult ToolExecutor::Carry(const Job& job) {
  const double queue_ms =
      job.request.created_ms() == 0
          ? 0
          : std::max<double>(0, static_cast<double>(clock_.WallMs() - job.request.created_ms()));
  v1::ToolResult result;
  if (job.cancellation->cancelled()) {
    result.set_request_id(job.request.request_id());
    *result.mutable_episode() = job.request.episode();
    result.set_tool(job.request.tool());
    result.set_outcome(v1::OUTCOME_UNAVAILABLE);
    result.set_cause("it was cancelled");
  } else {
    result = runner_->Handle(job.request, *job.cancellation);
  }
  result.set_queue_ms(queue_ms);
  return result;
}

void ToolExecutor::Count(const v1::ToolResult& result) {
  if (options_.metrics == nullptr) return;
  Metrics& metrics = *options_.metrics;
  const Labels tool = {{"tool", result.tool()}};
  metrics
      .Counter("tidemill_tool_requests_total", "Tool requests executed",
               {{"tool", result.tool()}, {"outcome", EnumName(result.outcome())}})
      .Increment();
  metrics.Histogram("tidemill_tool_queue_seconds", "Queue wait of a tool request", tool)
      .Observe(result.queue_ms() / 1e3);
  metrics.Histogram("tidemill_tool_run_seconds", "Run time of the commands in the box", tool)
      .Observe(result.wall_ms() / 1e3);
}

Duration ToolExecutor::Busy(Time now) const {
  Duration sum{0};
  for (const BusyMeter& meter : busy_) sum += meter.Busy(now);
  return sum;
}

}  // namespace tidemill
