#include "observe/worker_beacon.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "bus/broker.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/version.h"
#include "http/http_server.h"
#include "observe/process_metrics.h"
#include "observe/run_gauges.h"
#include "observe/run_status.h"

namespace tidemill {
namespace {

constexpr Duration kRateOver = std::chrono::seconds(10);

// How fast a count has grown lately.
class Pace {
 public:
  double Note(Time now, double count) {
    while (seen_.size() > 1 && now - seen_.front().first > kRateOver) seen_.pop_front();
    seen_.emplace_back(now, count);
    const double seconds = Seconds(now - seen_.front().first);
    return seconds > 0 ? std::max(0.0, count - seen_.front().second) / seconds : 0;
  }

 private:
  std::deque<std::pair<Time, double>> seen_;  // oldest first, no older than kRateOver but the first
};

std::string HostName() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

class Beacon final : public WorkerBeacon {
 public:
  Beacon(WorkerBeaconOptions options, std::unique_ptr<Roster> roster)
      : options_(std::move(options)), file_(options_.metrics_file), roster_(std::move(roster)) {
    beat_.set_worker(options_.worker);
    beat_.set_role(options_.role);
    beat_.set_version(FullVersion());
    beat_.set_messages(kMessagesVersion);
    beat_.set_host(HostName());
    beat_.set_pid(getpid());
    beat_.set_started_ms(clock_.WallMs());
  }

  ~Beacon() override {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.NotifyAll();
    if (thread_.joinable()) {
      thread_.join();
      (void)Beat();  // what it came to; without it, what the last beat said
    }
    http_.reset();
    Status left = roster_->Leave(options_.worker);
    if (!left.ok()) left = roster_->Leave(options_.worker);  // on a connection made anew
    if (!left.ok()) {
      LogWarn("the roster did not hear that this worker leaves", {{"why", left.message()}});
    }
  }

  Status Join() {
    TM_ASSIGN_OR_RETURN(const std::vector<RosterEntry> others, roster_->Workers());
    TM_RETURN_IF_ERROR(CheckSameMessages(others, beat_));
    HttpOptions http;
    http.address = options_.address;
    http.port = options_.port;
    http.workers = 1;
    http.connections_max = 64;
    http.tokens = options_.tokens;
    HttpHandlers handlers;
    handlers.answer = [this](const HttpRequest& request) { return Answer(request); };
    handlers.open_stream = [](const HttpRequest&, std::shared_ptr<EventStream>) {
      return NotFound("a worker has no events");
    };
    TM_ASSIGN_OR_RETURN(http_, HttpServer::Start(http, std::move(handlers)));
    beat_.set_endpoint(http_->url());
    TM_RETURN_IF_ERROR(Beat());
    thread_ = std::thread([this] { Run(); });
    return Ok();
  }

  void Leaving() override {
    {
      MutexLock lock(mutex_);
      leaving_ = true;
      beat_now_ = true;
    }
    changed_.NotifyAll();
  }

  std::string url() const override { return http_->url(); }

 private:
  void Run() {
    MutexLock lock(mutex_);
    while (!stop_) {
      changed_.WaitFor(lock, kBeatEvery,
                       [this]() TM_REQUIRES(mutex_) { return stop_ || beat_now_; });
      if (stop_) return;
      beat_now_ = false;
      lock.Unlock();
      const Status beaten = Beat();
      silent_ = !beaten.ok();
      if (!beaten.ok()) {
        LogEvery(std::chrono::seconds(30), "heartbeat", LogLevel::kWarn,
                 "no heartbeat reached the broker", {{"why", beaten.message()}});
      }
      lock.Lock();
    }
  }

  Status Beat() {
    const WorkerReport report = options_.report ? options_.report() : WorkerReport();
    const Time now = clock_.Now();
    if (now > last_beat_) {
      const double share = Seconds(report.busy - last_busy_) / Seconds(now - last_beat_);
      busy_ = std::clamp(share / std::max(report.slots, 1e-9), 0.0, 1.0);
    }
    last_beat_ = now;
    last_busy_ = report.busy;
    beat_.set_sent_ms(clock_.WallMs());
    const std::string stuck = options_.stuck ? options_.stuck() : "";
    beat_.set_doing(stuck.empty() ? report.doing : stuck);
    beat_.set_busy(busy_);
    beat_.set_policy_version(report.policy_version);
    if (const auto work = report.counts.find(report.rate_of); work != report.counts.end()) {
      beat_.set_rate(pace_.Note(now, work->second));
      beat_.set_rate_of(report.rate_of);
    }
    beat_.mutable_numbers()->clear();
    for (const auto& [name, number] : report.counts) (*beat_.mutable_numbers())[name] = number;
    for (const auto& [name, number] : report.levels) (*beat_.mutable_numbers())[name] = number;
    {
      MutexLock lock(mutex_);
      beat_.set_leaving(leaving_);
    }
    return roster_->Beat(beat_, report.counts);
  }

  HttpResponse Answer(const HttpRequest& request) {
    if (request.path == "/healthz") return Condition(options_.stuck, "ok\n");
    if (request.path == "/readyz") {
      if (IsLeaving()) return TextResponse(503, "leaving\n");
      if (silent_) return TextResponse(503, "the broker does not answer\n");
      return Condition(options_.not_ready, "ready\n");
    }
    if (request.path == "/metrics") return MetricsText();
    return ErrorResponse(404, "a worker has /metrics, /healthz and /readyz");
  }

  static HttpResponse Condition(const std::function<std::string()>& wrong, const char* good) {
    const std::string why = wrong ? wrong() : "";
    return why.empty() ? TextResponse(200, good) : TextResponse(503, why + "\n");
  }

  HttpResponse MetricsText() {
    const Labels labels = {
        {"run", options_.run}, {"role", options_.role}, {"worker", options_.worker}};
    std::string text = options_.metrics->Text(labels);
    if (!options_.metrics_file.empty()) text += FileGauges();
    return MetricsResponse(std::move(text));
  }

  std::string FileGauges() {
    MutexLock lock(file_mutex_);
    if (const Status read = file_.Update(); !read.ok()) {
      LogEvery(std::chrono::minutes(1), "metrics file", LogLevel::kWarn, read.message());
    }
    return RunGauges(options_.run, file_, options_.counters);
  }

  bool IsLeaving() {
    MutexLock lock(mutex_);
    return leaving_;
  }

  const WorkerBeaconOptions options_;
  const RealClock clock_;
  Mutex file_mutex_;
  MetricsFile file_ TM_GUARDED_BY(file_mutex_);

  // Of the beating thread alone, once there is one.
  const std::unique_ptr<Roster> roster_;
  v1::Heartbeat beat_;
  Time last_beat_ = Time::max();
  Duration last_busy_{};
  Pace pace_;
  std::atomic<double> busy_ = 0;
  std::atomic<bool> silent_ = false;  // the last beat failed

  Mutex mutex_;
  CondVar changed_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  bool leaving_ TM_GUARDED_BY(mutex_) = false;
  bool beat_now_ TM_GUARDED_BY(mutex_) = false;
  std::unique_ptr<HttpServer> http_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<WorkerBeacon>> WorkerBeacon::Start(WorkerBeaconOptions options) {
  TM_CHECK(options.metrics != nullptr, "a beacon without metrics");
  AddProcessMetrics(*options.metrics);
  if (options.watch_run) WatchRun(options.url, options.run, *options.metrics);
  TM_ASSIGN_OR_RETURN(auto roster, ConnectRoster(options.url, options.run));
  auto beacon = std::make_unique<Beacon>(std::move(options), std::move(roster));
  TM_RETURN_IF_ERROR(beacon->Join());
  return std::unique_ptr<WorkerBeacon>(std::move(beacon));
}

}  // namespace tidemill
