#include "bench/store_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <vector>

#include "core/random.h"
#include "store/run_reader.h"
#include "store/store_thread.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kDifferent =
    64;  // trajectories made; their ids differ each time they are stored

class Folder {
 public:
  static Result<std::unique_ptr<Folder>> Make(const std::string& where) {
    std::error_code error;
    const fs::path parent = where.empty() ? fs::temp_directory_path(error) : fs::path(where);
    std::string name = (parent / "store-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      return Unavailable(name + ": cannot make a folder: " + std::strerror(errno));
    }
    return std::unique_ptr<Folder>(new Folder(name));
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

class Bell final : public Waker {
 public:
  void Wake() override { rung_.release(); }
  void Wait() { rung_.acquire(); }

 private:
  std::counting_semaphore<1 << 24> rung_{0};
};

v1::Trajectory MakeTrajectory(Random& random, uint32_t tokens) {
  v1::Trajectory t;
  t.set_purpose(v1::PURPOSE_TRAIN);
  t.set_end(v1::EPISODE_END_SUBMITTED);
  t.set_group_members(8);
  for (int i = 0; i < 100; ++i) t.add_prompt_ids(static_cast<uint32_t>(random.Below(32'000)));
  v1::Turn& turn = *t.add_turns();
  for (uint32_t i = 0; i < tokens; ++i) {
    turn.add_ids(static_cast<uint32_t>(random.Below(32'000)));
    turn.add_logprobs(static_cast<float>(-random.Exponential(0.8)));
  }
  v1::VersionRun& run = *turn.add_versions();
  run.set_version(1), run.set_tokens(tokens);
  return t;
}

void Name(v1::Trajectory& t, uint64_t number) {
  t.mutable_id()->set_task("task-" + std::to_string(number / 8 % 500));
  t.mutable_id()->set_group(number / 8 + 1);
  t.mutable_id()->set_member(static_cast<uint32_t>(number % 8));
  t.mutable_id()->set_attempt(1);
}

struct Measured {
  double seconds = 0;
  double groups = 0;
  double file_bytes = 0;
};

Result<Measured> MeasureStore(const std::string& path, const StoreBenchOptions& options,
                              const std::vector<v1::Trajectory>& samples) {
  RealClock clock;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RunDb> db, RunDb::Open(path, clock));
  StoreThread store(std::move(db), clock);
  Bell bell;
  auto port = store.NewClient(options.in_flight);
  port->events().Attach(bell);
  const Time start = clock.Now();
  uint64_t submitted = 0, answered = 0;
  Status failure;
  while (answered < options.trajectories) {
    while (submitted < options.trajectories && submitted - answered < options.in_flight) {
      PutTrajectory put{samples[submitted % samples.size()]};
      Name(put.trajectory, submitted);
      port->Submit(std::move(put), submitted++);
    }
    bell.Wait();
    for (StoreDone& done : port->events().TakeAll()) {
      ++answered;
      if (!done.status.ok()) failure = done.status;
    }
  }
  Measured measured;
  measured.seconds = Seconds(clock.Now() - start);
  measured.groups = static_cast<double>(store.stats().transactions);
  port.reset();
  store.Stop();
  if (!failure.ok()) return failure;
  std::error_code ignored;
  measured.file_bytes = static_cast<double>(fs::file_size(path, ignored));
  return measured;
}

// The peer: the messages as they are, appended to a file and synced after every `group`.
Result<double> MeasurePlain(const std::string& path, uint64_t trajectories, double group,
                            const std::vector<std::string>& messages) {
  RealClock clock;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Unavailable(path + ": cannot open");
  const Time start = clock.Now();
  std::string buffer;
  double boundary = group;
  bool ok = true;
  for (uint64_t i = 0; i < trajectories && ok; ++i) {
    buffer += messages[i % messages.size()];
    if (static_cast<double>(i + 1) < boundary && i + 1 < trajectories) continue;
    boundary += group;
    ok = write(fd, buffer.data(), buffer.size()) == static_cast<ssize_t>(buffer.size()) &&
         fdatasync(fd) == 0;
    buffer.clear();
  }
  const double seconds = Seconds(clock.Now() - start);
  close(fd);
  if (!ok) return Unavailable(path + ": cannot write or sync");
  return seconds;
}

// A run of many short episodes, so that what counts is their number.
Status FillRun(const std::string& path, uint64_t episodes) {
  RealClock clock;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RunDb> db, RunDb::Open(path, clock));
  Random random(1);
  const v1::Trajectory sample = MakeTrajectory(random, 20);
  std::vector<StoreOp> ops;
  auto flush = [&]() -> Status {
    std::vector<const StoreOp*> pointers;
    for (const StoreOp& op : ops) pointers.push_back(&op);
    auto outcomes = db->Apply(pointers);
    ops.clear();
    return outcomes.status();
  };
  std::vector<v1::TrajectoryId> used;
  for (uint64_t i = 0; i < episodes; ++i) {
    v1::Trajectory t = sample;
    Name(t, i);
    const bool eval = i / 8 % 20 == 0;
    if (eval)
      t.set_purpose(v1::PURPOSE_EVAL), t.set_eval_name("eval-" + std::to_string(i / 20'000));
    t.mutable_turns(0)->mutable_versions(0)->set_version(i / 64 + 1);
    t.set_started_ms(1'700'000'000'000 + static_cast<int64_t>(i) * 100);
    t.set_finished_ms(t.started_ms() + static_cast<int64_t>(random.Below(60'000)));
    v1::Verdict verdict;
    *verdict.mutable_id() = t.id();
    verdict.set_scored(true);
    verdict.set_solved(random.Chance(0.4));
    verdict.set_reward(verdict.solved() ? 1 : random.Uniform() * 0.5);
    if (!eval) used.push_back(t.id());
    const v1::TrajectoryId id = t.id();
    ops.push_back(PutTrajectory{std::move(t)});
    ops.push_back(PutVerdict{std::move(verdict)});
    if (random.Chance(0.1)) ops.push_back(PutFate{id, Fate::kStale, "lag"});
    if (used.size() == 64) {
      ops.push_back(
          PutStep{i / 64 + 1, i / 64 + 1, std::move(used), "{\"loss\": 0.5, \"lr\": 1e-5}"});
      used.clear();
    }
    if (ops.size() >= 8192) TM_RETURN_IF_ERROR(flush());
  }
  return flush();
}

Status MeasureQueries(const std::string& path, StoreBenchReport& report) {
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RunReader> opened, RunReader::Open(path));
  RunReader& reader = *opened;
  auto episodes = [&](EpisodeFilter filter, EpisodeSort sort, uint64_t offset) {
    return reader.Episodes(filter, sort, {offset, 50}).status();
  };
  EpisodeFilter task, range, stale, version, eval;
  task.task = "task-17";
  range.reward_min = 0.2, range.reward_max = 0.4;
  stale.fate = Fate::kStale;
  version.version = report.episodes / 128;
  eval.purpose = v1::PURPOSE_EVAL, eval.eval_name = "eval-0";
  const std::vector<std::pair<std::string, std::function<Status()>>> queries = {
      {"newest", [&] { return episodes({}, EpisodeSort::kNewest, 0); }},
      {"worst", [&] { return episodes({}, EpisodeSort::kWorst, 0); }},
      {"worst, far page", [&] { return episodes({}, EpisodeSort::kWorst, report.episodes / 2); }},
      {"most tokens", [&] { return episodes({}, EpisodeSort::kMostTokens, 0); }},
      {"of a task, worst", [&] { return episodes(task, EpisodeSort::kWorst, 0); }},
      {"by reward", [&] { return episodes(range, EpisodeSort::kNewest, 0); }},
      {"stale", [&] { return episodes(stale, EpisodeSort::kNewest, 0); }},
      {"of a version", [&] { return episodes(version, EpisodeSort::kNewest, 0); }},
      {"of an evaluation", [&] { return episodes(eval, EpisodeSort::kWorst, 0); }},
      {"one episode", [&] { return reader.Episode(report.episodes / 16, 3).status(); }},
      {"one group's episodes", [&] { return reader.Group(report.episodes / 16).status(); }},
      {"tasks", [&] { return reader.Tasks(v1::PURPOSE_TRAIN).status(); }},
      {"over time", [&] { return reader.PassRateOverTime("", v1::PURPOSE_TRAIN, 100).status(); }},
      {"task over time",
       [&] { return reader.PassRateOverTime("task-17", v1::PURPOSE_TRAIN, 100).status(); }},
      {"steps", [&] { return reader.Steps(0, 1000).status(); }},
      {"counts", [&] { return reader.Counts().status(); }},
      {"evaluations", [&] { return reader.Evals().status(); }},
  };
  RealClock clock;
  for (const auto& [name, query] : queries) {
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      const Time start = clock.Now();
      const Status status = query();
      times.push_back(Milliseconds(clock.Now() - start));
      if (!status.ok()) return status.WithContext(name);
    }
    std::sort(times.begin(), times.end());
    report.query_ms[name] = times[2];
    report.query_ms_worst = std::max(report.query_ms_worst, times[2]);
  }
  return Ok();
}

}  // namespace

Result<StoreBenchReport> RunStoreBench(const StoreBenchOptions& options) {
  if (options.trajectories == 0 || options.in_flight == 0 || options.rounds == 0) {
    return Invalid("trajectories, in_flight and rounds must be positive");
  }
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Folder> folder, Folder::Make(options.directory));
  Random random(7);
  std::vector<v1::Trajectory> samples;
  std::vector<std::string> messages;
  double bytes = 0;
  for (uint64_t i = 0; i < kDifferent; ++i) {
    samples.push_back(MakeTrajectory(random, options.tokens));
    Name(samples.back(), i);
    messages.push_back(samples.back().SerializeAsString());
    bytes += static_cast<double>(messages.back().size());
  }
  StoreBenchReport report;
  report.trajectories = options.trajectories * options.rounds;
  report.tokens = options.tokens;
  report.bytes_each = bytes / kDifferent;
  const auto count = static_cast<double>(options.trajectories);
  Measured store;
  double plain_seconds = 0;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    const std::string path = folder->path() + "/run" + std::to_string(round);
    TM_ASSIGN_OR_RETURN(const Measured one, MeasureStore(path + ".db", options, samples));
    TM_ASSIGN_OR_RETURN(const double seconds, MeasurePlain(path + ".plain", options.trajectories,
                                                           count / one.groups, messages));
    store.seconds += one.seconds;
    store.groups += one.groups;
    store.file_bytes += one.file_bytes;
    plain_seconds += seconds;
    std::error_code ignored;
    for (const char* end : {".db", ".plain"}) fs::remove(path + end, ignored);
  }
  const auto all = static_cast<double>(report.trajectories);
  report.group = all / store.groups;
  report.store_per_s = all / store.seconds;
  report.plain_per_s = all / plain_seconds;
  report.ratio = report.store_per_s / report.plain_per_s;
  report.file_bytes_per_byte = store.file_bytes / (all * report.bytes_each);
  if (options.episodes > 0) {
    report.episodes = options.episodes;
    const std::string path = folder->path() + "/large.db";
    TM_RETURN_IF_ERROR(FillRun(path, options.episodes));
    TM_RETURN_IF_ERROR(MeasureQueries(path, report));
  }
  return report;
}

std::string StoreBenchReport::ToText() const {
  std::string text = fmt::format(
      "store: {:.0f} trajectories/s of {} tokens ({:.1f} kB), synced in groups of {:.0f}\n"
      "plain write and fdatasync of the same: {:.0f}/s; ratio {:.2f}; file {:.2f} bytes a byte\n",
      store_per_s, tokens, bytes_each / 1000, group, plain_per_s, ratio, file_bytes_per_byte);
  if (episodes == 0) return text;
  text += fmt::format("readers on {} episodes, worst {:.1f} ms:\n", episodes, query_ms_worst);
  for (const auto& [name, ms] : query_ms) text += fmt::format("  {:<22} {:8.2f} ms\n", name, ms);
  return text;
}

std::string StoreBenchReport::ToJson() const {
  const nlohmann::ordered_json json = {{"trajectories", trajectories},
                                       {"tokens", tokens},
                                       {"bytes_each", bytes_each},
                                       {"group", group},
                                       {"store_per_s", store_per_s},
                                       {"plain_per_s", plain_per_s},
                                       {"ratio", ratio},
                                       {"file_bytes_per_byte", file_bytes_per_byte},
                                       {"episodes", episodes},
                                       {"query_ms_worst", query_ms_worst},
                                       {"query_ms", query_ms}};
  return json.dump();
}

}  // namespace tidemill
