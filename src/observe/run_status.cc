#include "observe/run_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bus/broker.h"
#include "core/topics.h"
#include "observe/weights_figures.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

// Failures of ours, and the counters they add up.
struct Failure {
  const char* name;
  std::vector<std::string> counters;
};
const std::vector<Failure> kFailures = {
    {"retries", {"tool_retries", "agent_retries", "reward_retries"}},
    {"skipped", {"skipped", "unscorable"}},
    {"stale", {"stale"}}};

// "812 tokens/s"; "-": it counts nothing.
std::string RateText(const v1::Heartbeat& beat) {
  if (beat.rate_of().empty()) return "-";
  std::string unit = beat.rate_of();
  std::replace(unit.begin(), unit.end(), '_', ' ');
  return fmt::format("{:.{}f} {}/s", beat.rate(), beat.rate() < 10 ? 1 : 0, unit);
}

// "3 s", "12 min", "5 h", "2 d": for people.
std::string Span(double seconds) {
  if (seconds < 0.95) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} d", seconds / 86400);
}

std::string SpanOrNone(Duration d) {
  return d.count() == 0 ? "-" : Span(Seconds(d));
}

std::string WorkersText(const RunStatus& status, int64_t now_ms) {
  std::string text =
      fmt::format("{:<32} {:<8} {:<8} {:>5} {:>20} {:>7} {:>8} {:>4}  {:<24} {}\n", "WORKER",
                  "ROLE", "STATE", "BUSY", "RATE", "UP", "VERSION", "LAG", "DOING", "METRICS");
  for (const RosterEntry& entry : status.workers) {
    const v1::Heartbeat& beat = entry.beat;
    const bool policy = beat.policy_version() > 0;
    text += fmt::format(
        "{:<32} {:<8} {:<8} {:>3.0f} % {:>20} {:>7} {:>8} {:>4}  {:<24} {}\n", beat.worker(),
        beat.role(), WorkerState(entry), 100 * beat.busy(), RateText(beat),
        Span(static_cast<double>(std::max<int64_t>(0, now_ms - beat.started_ms())) / 1e3),
        policy ? std::to_string(beat.policy_version()) : "-",
        policy ? std::to_string(status.Lag(beat)) : "-",
        entry.lost() ? "silent for " + Span(Seconds(entry.age)) : beat.doing(), beat.endpoint());
  }
  return text;
}

std::string TopicsText(const RunStatus& status) {
  std::string text = fmt::format("{:<40} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10}\n", "TOPIC", "READY",
                                 "LEASED", "DELAYED", "DIED", "WAITS", "HELD");
  for (const TopicState& topic : status.topics) {
    text += fmt::format("{:<40} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10}\n", topic.name, topic.ready,
                        topic.leased, topic.delayed, topic.died, SpanOrNone(topic.oldest_ready),
                        SpanOrNone(topic.oldest_leased));
  }
  return text;
}

// The learner's, who publishes.
std::vector<WayFigures> WaysOf(const RunStatus& status) {
  for (const RosterEntry& entry : status.workers) {
    if (entry.beat.role() == "learner" && !entry.lost()) return WaysIn(entry.beat);
  }
  return {};
}

}  // namespace

size_t RunStatus::lost() const {
  return static_cast<size_t>(std::count_if(workers.begin(), workers.end(),
                                           [](const RosterEntry& entry) { return entry.lost(); }));
}

uint64_t RunStatus::Lag(const v1::Heartbeat& worker) const {
  return worker.policy_version() == 0 ? 0 : policy_version - worker.policy_version();
}

uint64_t RunStatus::LagMax() const {
  uint64_t lag = 0;
  for (const RosterEntry& entry : workers) {
    if (!entry.lost()) lag = std::max(lag, Lag(entry.beat));
  }
  return lag;
}

uint64_t RunStatus::ToolBacklog() const {
  uint64_t backlog = 0;
  for (const TopicState& topic : topics) {
    if (IsToolWork(topic.name)) backlog += topic.ready + topic.delayed + topic.leased;
  }
  return backlog;
}

Result<RunStatusReader> RunStatusReader::Connect(const std::string& url, Duration timeout) {
  TM_ASSIGN_OR_RETURN(auto inspector, ConnectInspector(url, timeout));
  return RunStatusReader(std::move(inspector));
}

Result<RunStatus> RunStatusReader::Read(const std::string& run) {
  const Status there = inspector_->CheckRun(run);
  if (!there.ok() && there.code() != Code::kNotFound) return there;
  RunStatus status;
  status.run = run;
  TM_ASSIGN_OR_RETURN(status.workers, inspector_->Workers(run));
  // Workers that wait for its learner are there before the run is.
  if (!there.ok() && status.workers.empty()) return there;
  TM_ASSIGN_OR_RETURN(status.topics, inspector_->Topics(run));
  for (const Failure& failure : kFailures) status.failures[failure.name] = 0;
  for (const RosterEntry& entry : status.workers) {
    status.policy_version = std::max(status.policy_version, entry.beat.policy_version());
  }
  TM_ASSIGN_OR_RETURN(const RosterTotals totals, inspector_->Totals(run));
  for (const auto& [key, count] : totals) {
    const std::string counter = key.substr(key.find('/') + 1);
    for (const Failure& failure : kFailures) {
      const auto& counters = failure.counters;
      if (std::find(counters.begin(), counters.end(), counter) != counters.end()) {
        status.failures[failure.name] += count;
      }
    }
  }
  for (const TopicState& topic : status.topics) {
    if (topic.name == kDeadTopic) status.dead_letters = topic.ready + topic.leased + topic.delayed;
  }
  return status;
}

const char* WorkerState(const RosterEntry& entry) {
  return entry.lost() ? "lost" : entry.beat.leaving() ? "leaving" : "here";
}

Json StatusFigures(const RunStatus& status) {
  Json json = {{"policy_version", status.policy_version},
               {"lag_max", status.LagMax()},
               {"dead_letters", status.dead_letters},
               {"lost_workers", status.lost()},
               {"tool_backlog", status.ToolBacklog()}};
  for (const auto& [name, count] : status.failures) json[name] = count;
  return json;
}

Json WorkerJson(const RunStatus& status, const RosterEntry& entry) {
  const v1::Heartbeat& beat = entry.beat;
  Json worker = {{"worker", beat.worker()},
                 {"role", beat.role()},
                 {"state", WorkerState(entry)},
                 {"host", beat.host()},
                 {"pid", beat.pid()},
                 {"program", beat.version()},
                 {"messages", beat.messages()},
                 {"started_ms", beat.started_ms()},
                 {"beat_age_s", Seconds(entry.age)},
                 {"doing", beat.doing()},
                 {"busy", beat.busy()},
                 {"rate", beat.rate_of().empty() ? Json() : Json(beat.rate())},
                 {"rate_of", beat.rate_of()},
                 {"policy_version", beat.policy_version()},
                 {"lag", status.Lag(beat)},
                 {"endpoint", beat.endpoint()}};
  Json& numbers = worker["numbers"] = Json::object();
  for (const auto& [name, number] :
       std::map<std::string, double>(beat.numbers().begin(), beat.numbers().end())) {
    numbers[name] = number;
  }
  return worker;
}

Json TopicJson(const TopicState& topic) {
  return {{"topic", topic.name},
          {"ready", topic.ready},
          {"leased", topic.leased},
          {"delayed", topic.delayed},
          {"owed", topic.owed},
          {"dead", topic.died},
          {"capacity", topic.options.capacity},
          {"oldest_ready_s", Seconds(topic.oldest_ready)},
          {"oldest_leased_s", Seconds(topic.oldest_leased)}};
}

Json StatusJson(const RunStatus& status) {
  Json json = {{"run", status.run}};
  json.update(StatusFigures(status));
  Json& workers = json["workers"] = Json::array();
  for (const RosterEntry& entry : status.workers) workers.push_back(WorkerJson(status, entry));
  Json& topics = json["topics"] = Json::array();
  for (const TopicState& topic : status.topics) topics.push_back(TopicJson(topic));
  Json& ways = json["weights"] = Json::array();
  for (const WayFigures& way : WaysOf(status)) {
    ways.push_back({{"way", way.way},
                    {"versions", way.versions},
                    {"version", way.version},
                    {"bytes", way.bytes},
                    {"whole", way.whole},
                    {"density", way.density},
                    {"seconds", way.seconds},
                    {"bytes_total", way.bytes_total}});
  }
  return json;
}

std::string StatusText(const RunStatus& status, int64_t now_ms) {
  std::string text = fmt::format("run {}: {} workers", status.run, status.workers.size());
  if (status.lost() > 0) text += fmt::format(", {} of them lost", status.lost());
  if (status.policy_version > 0) {
    text += fmt::format("; version {}, {} behind at most", status.policy_version, status.LagMax());
  }
  text +=
      fmt::format("; retries {:.0f}, skipped {:.0f}, stale {:.0f}\n", status.failures.at("retries"),
                  status.failures.at("skipped"), status.failures.at("stale"));
  if (!status.workers.empty()) text += "\n" + WorkersText(status, now_ms);
  text += "\n" + TopicsText(status);
  if (const std::string ways = WaysText(WaysOf(status)); !ways.empty()) text += "\n" + ways;
  if (status.dead_letters > 0) {
    text += fmt::format("\n{} dead letters; see: tidemill dead list --run {}\n",
                        status.dead_letters, status.run);
  }
  return text;
}

void SinkRunStatus(const RunStatus& status, MetricSink& sink) {
  for (const TopicState& topic : status.topics) {
    const Labels labels = {{"topic", topic.name}};
    sink.Gauge("tidemill_topic_ready", "Messages waiting, including delayed ones",
               static_cast<double>(topic.ready + topic.delayed), labels);
    sink.Gauge("tidemill_topic_leased", "Messages being processed",
               static_cast<double>(topic.leased), labels);
    sink.Gauge("tidemill_topic_capacity", "Maximum number of messages in a topic",
               static_cast<double>(topic.options.capacity), labels);
    sink.Gauge("tidemill_topic_oldest_seconds", "Age of the oldest waiting message",
               Seconds(topic.oldest_ready), labels);
    sink.Counter("tidemill_topic_died_total", "Messages that became dead letters",
                 static_cast<double>(topic.died), labels);
  }
  sink.Gauge("tidemill_dead_letters", "Dead letters on the bus",
             static_cast<double>(status.dead_letters));
  sink.Gauge("tidemill_tool_backlog", "Tool calls and gradings that wait or run",
             static_cast<double>(status.ToolBacklog()));
  sink.Gauge("tidemill_policy_lag_versions",
             "Versions between the newest weights and those of the slowest worker",
             static_cast<double>(status.LagMax()));
  std::map<std::pair<std::string, std::string>, double> workers;
  for (const RosterEntry& entry : status.workers) {
    for (const char* state : {"here", "leaving", "lost"}) {
      workers[{entry.beat.role(), state}] += state == std::string_view(WorkerState(entry)) ? 1 : 0;
    }
  }
  for (const auto& [key, count] : workers) {
    sink.Gauge("tidemill_workers", "Workers of the run", count,
               {{"of_role", key.first}, {"state", key.second}});
  }
}

void WatchRun(const std::string& url, const std::string& run, Metrics& metrics) {
  // Shared with the source, which is copied.
  auto reader = std::make_shared<std::unique_ptr<RunStatusReader>>();
  metrics.AddSource([url, run, reader](MetricSink& sink) {
    constexpr Duration kTimeout = std::chrono::seconds(2);
    if (*reader == nullptr) {
      Result<RunStatusReader> connected = RunStatusReader::Connect(url, kTimeout);
      if (connected.ok()) *reader = std::make_unique<RunStatusReader>(std::move(*connected));
    }
    Result<RunStatus> status =
        *reader == nullptr ? Unavailable("no connection") : (*reader)->Read(run);
    if (status.ok()) SinkRunStatus(*status, sink);
    sink.Gauge("tidemill_broker_up", "1 while the broker answers and has the run",
               status.ok() ? 1 : 0);
  });
}

}  // namespace tidemill
