#include "agents/agent_runner.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/enum_name.h"
#include "core/ids.h"
#include "core/log.h"
#include "core/paths.h"
#include "core/random.h"
#include "core/secret.h"
#include "core/text.h"
#include "rollout/episode.h"
#include "tasks/task_json.h"
#include "tools/workspace.h"
#include "tools/workspace_diff.h"

namespace tidemill {
namespace {

constexpr uint16_t kAgentPort = 47017;  // of each box's own loopback
constexpr size_t kDoneMax = size_t{1} << 20;
// How often a running program is looked at. One that ends is noticed at once.
constexpr Duration kLookEvery = std::chrono::seconds(1);
// A program that asks for more than it may has so long to end by itself.
constexpr Duration kRefusedPatience = std::chrono::seconds(2);
constexpr Duration kForever = std::chrono::hours(24);
constexpr size_t kLastWords = 1000;
constexpr size_t kLogBytes = 64 * 1024;   // kept of what a program prints
constexpr size_t kDiffBytes = 64 * 1024;  // and of what it changes

std::string AgentUrl() {
  return fmt::format("http://127.0.0.1:{}", kAgentPort);
}

// The run's sampling, as a protocol's episode uses it.
EpisodeTerms TermsOf(const AgentJob& job, const AgentProgram& program) {
  const v1::GroupLease& lease = job.group->lease;
  const v1::Sampling& sampling = lease.sampling();
  EpisodeTerms terms;
  terms.sampling.sampling.temperature = static_cast<float>(sampling.temperature());
  if (sampling.top_p() > 0) {
    terms.sampling.sampling.top_p = static_cast<float>(sampling.top_p());
  }
  terms.sampling.sampling.top_k = static_cast<int32_t>(sampling.top_k());
  terms.sampling.sampling.min_p = static_cast<float>(sampling.min_p());
  terms.sampling.max_new_tokens = static_cast<int32_t>(sampling.max_turn_tokens());
  terms.sampling.seed = MixHash(lease.seed(), job.member);
  terms.impose = !program.own_sampling;
  terms.max_turns = lease.max_turns();
  terms.max_tokens = program.max_tokens;
  return terms;
}

v1::EpisodeEnd EndOf(const RunReport& report, const EpisodeSession& session) {
  if (session.out_of_turns) return v1::EPISODE_END_MAX_TURNS;
  if (session.out_of_tokens) return v1::EPISODE_END_MAX_TOKENS;
  if (session.out_of_context) return v1::EPISODE_END_CONTEXT;
  return report.outcome == v1::OUTCOME_OK ? v1::EPISODE_END_SUBMITTED : v1::EPISODE_END_FAILED;
}

std::string LastWords(const RunReport& report) {
  std::string text = ToUtf8(report.err.empty() ? report.out : report.err);
  if (text.size() > kLastWords) text = ToUtf8(".." + text.substr(text.size() - kLastWords));
  return fmt::format("{} (status {}): {}", EnumName(report.outcome), report.exit_code, text);
}

// Why an episode has no token to train; empty: it has some.
std::string WhyUntrained(const EpisodeSession& session, const std::string& last_words) {
  if (!session.branches.empty()) return "";
  if (session.turns > 0) {
    return fmt::format("none of the {} answers can be trained: {}", session.turns,
                       session.untrained.empty() ? "each is a helper's or was asked for again"
                                                 : session.untrained);
  }
  if (session.refused.empty()) return "it ended without asking the model: " + last_words;
  return fmt::format("the gateway refused its requests, the last with {}; it ended with {}",
                     session.refused, last_words);
}

}  // namespace

std::string AgentTaskSheet(const v1::GroupLease& lease) {
  v1::Task task = lease.task();
  task.clear_files();
  task.clear_agent();
  task.clear_root();
  task.clear_grading();
  nlohmann::ordered_json sheet = TaskToJson(task);
  sheet.erase("grading");
  sheet["max_turns"] = lease.max_turns();
  return sheet.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

struct AgentRunner::Episode {
  const AgentJob& job;
  AgentProgram program;
  std::string name{};  // of the session
  std::string key{};
  AgentWords words{};
  std::unique_ptr<Box> box{};
  Fd listening{};
  BoxErrands errands{};
  Workspace workspace{};
  Time started{};
};

AgentRunner::AgentRunner(AgentRunnerOptions options, Gateway& gateway, EpisodeRecorder& recorder,
                         BlobStore* blobs, const Clock& clock)
    : options_(std::move(options)),
      gateway_(gateway),
      recorder_(recorder),
      blobs_(blobs),
      clock_(clock),
      events_(kDoneMax) {}

Result<std::unique_ptr<AgentRunner>> AgentRunner::Create(AgentRunnerOptions options,
                                                         Gateway& gateway,
                                                         EpisodeRecorder& recorder,
                                                         BlobStore* blobs, const Clock& clock) {
  options.boxes.loopback = true;
  options.boxes.mounts = options.program.mounts;
  options.boxes.boxes_max = 2 * options.slots + 64;
  options.boxes.environment.push_back("HOME=" + std::string(kAgentHome));
  std::unique_ptr<AgentRunner> runner(
      new AgentRunner(std::move(options), gateway, recorder, blobs, clock));
  auto host = BoxHost::Create(runner->options_.boxes);
  if (!host.ok()) return host.status().WithContext("the agents' boxes");
  runner->host_ = std::move(*host);
  runner->pool_ = std::make_unique<BoxPool>(*runner->host_, runner->options_.ready);
  runner->roots_ =
      std::make_unique<RootPools>(*runner->pool_, runner->options_.boxes, runner->options_.roots);
  return runner;
}

AgentRunner::~AgentRunner() {
  if (options_.tools != nullptr) options_.tools->Drain();
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& [tag, cancellation] : under_way_) cancellation->Cancel();
    threads.swap(threads_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

void AgentRunner::Start(AgentJob job, uint64_t tag) {
  MutexLock lock(mutex_);
  Queued queued{std::move(job), tag, std::make_shared<Cancellation>()};
  under_way_[tag] = queued.cancellation;
  queue_.push_back(std::move(queued));
  if (queue_.size() > idle_ && threads_.size() < options_.slots) {
    threads_.emplace_back([this] { Work(); });
  }
  changed_.NotifyOne();
}

void AgentRunner::Cancel(uint64_t tag) {
  MutexLock lock(mutex_);
  if (const auto it = under_way_.find(tag); it != under_way_.end()) it->second->Cancel();
}

size_t AgentRunner::running() const {
  MutexLock lock(mutex_);
  return under_way_.size() - queue_.size();
}

void AgentRunner::Work() {
  MutexLock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
    --idle_;
    if (stopping_) return;
    const Queued queued = std::move(queue_.front());
    queue_.pop_front();
    lock.Unlock();
    AgentDone done{queued.tag, Carry(queued)};
    lock.Lock();
    under_way_.erase(queued.tag);
    if (stopping_) return;
    lock.Unlock();  // who is woken may start the next one at once
    events_.Post(std::move(done));
    lock.Lock();
  }
}

// A box with everything in it but the program's processes.
Status AgentRunner::Furnish(Episode& episode) {
  const v1::Task& task = episode.job.group->lease.task();
  const BoxLimits& limits = episode.program.limits;
  v1::Tree tree;
  *tree.mutable_files() = task.files();
  TM_ASSIGN_OR_RETURN(episode.workspace, LoadWorkspace(tree, {}, blobs_));
  TM_ASSIGN_OR_RETURN(BoxPool* const pool, roots_->Of(task.root()));
  TM_ASSIGN_OR_RETURN(episode.box, pool->Take());
  Box& box = *episode.box;
  TM_RETURN_IF_ERROR(box.Configure(limits));
  TM_ASSIGN_OR_RETURN(episode.listening, box.Listen(kAgentPort));
  const std::vector<BoxMount>& mounts = episode.program.mounts;
  episode.words = {{"prompt", PromptText(task)},
                   {"workspace", std::string(kAgentWorkspace)},
                   {"home", std::string(kAgentHome)},
                   {"task", std::string(kAgentTaskFile)},
                   {"url", AgentUrl()},
                   {"key", episode.key},
                   {"model", episode.program.model},
                   {"mount", mounts.empty() ? "" : mounts[0].to},
                   {"path", box.path()}};
  for (const auto& [path, file] : episode.workspace) {
    TM_RETURN_IF_ERROR(box.Put(path, file.content, file.executable));
  }
  for (const auto& [path, content] : episode.program.files) {
    TM_RETURN_IF_ERROR(box.PutOutside("home/" + path, FillWords(content, episode.words)));
  }
  for (const v1::ShownSkill& skill : episode.job.group->CasesOf(episode.job.member).skills()) {
    if (episode.program.skills.empty()) break;
    const std::string path = episode.program.skills + "/" + skill.skill().name() + "/SKILL.md";
    TM_RETURN_IF_ERROR(CheckPath(path));
    TM_RETURN_IF_ERROR(box.PutOutside("home/" + path, skill.text()));
  }
  TM_RETURN_IF_ERROR(box.PutOutside("task.json", AgentTaskSheet(episode.job.group->lease)));
  TM_RETURN_IF_ERROR(box.PutOutside("etc/passwd", "agent:x:1000:1000:agent:/box/home:/bin/sh\n"));
  return box.PutOutside("etc/hosts", "127.0.0.1 localhost\n");
}

// Whether something but its own end ends the program.
v1::Outcome AgentRunner::Watch(const Episode& episode) const {
  const EpisodeLife life = recorder_.Look(episode.name);
  const Time now = clock_.Now();
  if (!life.failed.ok()) return v1::OUTCOME_UNAVAILABLE;
  if (options_.tools != nullptr && !options_.tools->Look(episode.name).ok()) {
    return v1::OUTCOME_UNAVAILABLE;
  }
  if (life.refused != kNever && now - life.refused > kRefusedPatience) return v1::OUTCOME_OK;
  // Waiting in our queues, and for the model, is not the agent's time.
  if (now - episode.started - life.waited > episode.program.limits.wall) {
    return v1::OUTCOME_TIMEOUT;
  }
  const Duration idle = episode.program.idle;
  if (idle > Duration(0) && life.asked && !life.asking && now - life.last > idle) {
    return v1::OUTCOME_OK;
  }
  return v1::OUTCOME_UNSPECIFIED;
}

RunReport AgentRunner::Run(Episode& episode) {
  const AgentProgram& program = episode.program;
  RunSpec spec;
  for (const std::string& word : program.command) {
    spec.command.push_back(FillWords(word, episode.words));
  }
  spec.environment = {"HOME=" + std::string(kAgentHome),
                      "OPENAI_BASE_URL=" + AgentUrl() + "/v1",
                      "OPENAI_API_BASE=" + AgentUrl() + "/v1",
                      "OPENAI_API_KEY=" + episode.key,
                      "OPENAI_MODEL=" + program.model,
                      "ANTHROPIC_BASE_URL=" + AgentUrl(),
                      "ANTHROPIC_API_KEY=" + episode.key,
                      "ANTHROPIC_MODEL=" + program.model,
                      "TIDEMILL_TASK=" + std::string(kAgentTaskFile)};
  if (options_.tools != nullptr) {
    spec.environment.push_back("TIDEMILL_MCP_URL=" + AgentUrl() + std::string(kMcpPath));
    spec.errands = &episode.errands;
  }
  for (const std::string& word : program.environment) {
    spec.environment.push_back(FillWords(word, episode.words));
  }
  spec.limits = program.limits;
  spec.limits.wall = kForever;
  spec.keep_bytes = 4 * kLastWords;
  spec.log_bytes = kLogBytes;
  spec.tick = kLookEvery;
  spec.last_file = program.last_file;
  spec.keep_files = true;
  spec.watch = [this, &episode] { return Watch(episode); };
  spec.sharing = [this] { return recorder_.Working(); };
  episode.started = clock_.Now();
  return episode.box->Run(spec);
}

void AgentRunner::Collect(Episode& episode, AgentOutcome& outcome) {
  auto tree = episode.box->Collect(
      {.bytes_max = WorkspaceLimits().bytes_max, .files_max = WorkspaceLimits().files_max});
  if (tree.status().code() == Code::kFull) {  // too much to be graded: its files as they were
    outcome.end = v1::EPISODE_END_FAILED;
    outcome.words = tree.status().message();
  } else if (!tree.ok()) {
    outcome.status = Unavailable(tree.status().message());
    return;
  } else {
    Workspace left;
    for (v1::File& file : *tree->mutable_files()) {
      left[file.path()] = {std::move(*file.mutable_content()), file.executable()};
    }
    outcome.log.set_diff(WorkspaceDiff(episode.workspace, left, kDiffBytes));
    episode.workspace = std::move(left);
  }
  auto stored = StoreWorkspace(episode.workspace, blobs_);
  outcome.status = stored.status();
  if (stored.ok()) outcome.tree = std::move(*stored);
}

// The episode's log for people, and whether the episode was of use.
void AgentRunner::Record(const Episode& episode, const RunReport& report,
                         const EpisodeSession& session, AgentOutcome& outcome) {
  v1::AgentLog& log = outcome.log;
  log.set_text(report.log);
  log.set_bytes(report.log_total);
  log.set_truncated(report.log_total > kLogBytes);
  log.set_ended(fmt::format("{} (status {})", EnumName(report.outcome), report.exit_code));
  log.set_answers(session.turns);
  if (!outcome.status.ok()) return;
  log.set_untrained(WhyUntrained(session, outcome.words));
  const v1::GroupLease& lease = episode.job.group->lease;
  MutexLock lock(mutex_);
  if (log.untrained().empty()) {
    trained_ += lease.purpose() == v1::PURPOSE_TRAIN ? 1 : 0;
    return;
  }
  if (session.turns == 0) {
    ++idle_episodes_;
    LogEvery(std::chrono::seconds(10), "agent-silent", LogLevel::kWarn,
             "an agent got no answer of the model",
             {{"task", lease.task().id()}, {"why", log.untrained()}});
  } else if (lease.purpose() == v1::PURPOSE_TRAIN) {
    ++untrained_;
  }
  why_ = "task " + lease.task().id() + ": " + log.untrained();
}

Status AgentRunner::CheckUse() const {
  const bool answered = recorder_.Answers();
  MutexLock lock(mutex_);
  const uint64_t enough = options_.give_up;
  if (enough == 0) return Ok();
  if (!answered && idle_episodes_ >= enough) {
    return Unavailable(
        fmt::format("none of the first {} episodes got an answer of the model "
                    "(agent.give_up); the newest, {}",
                    idle_episodes_, why_));
  }
  if (options_.learns && trained_ == 0 && untrained_ >= enough) {
    return Unavailable(
        fmt::format("none of the first {} training episodes has a token to train "
                    "(agent.give_up); the newest, {}",
                    untrained_, why_));
  }
  return Ok();
}

// As a tool's command: a timeout for which the machine had no time is tried once more, and counts
// then.
AgentOutcome AgentRunner::Carry(const Queued& queued) {
  bool starved = false;
  AgentOutcome outcome = Attempt(queued, /*last=*/false, &starved);
  if (!starved || queued.cancellation->cancelled()) return outcome;
  LogEvery(std::chrono::seconds(10), "agent-starved", LogLevel::kWarn,
           "the machine was too busy for an agent, which begins again",
           {{"task", queued.job.group->lease.task().id()}});
  return Attempt(queued, /*last=*/true, &starved);
}

AgentOutcome AgentRunner::Attempt(const Queued& queued, bool last, bool* starved) {
  const v1::GroupLease& lease = queued.job.group->lease;
  AgentOutcome outcome;
  Episode episode{queued.job, ProgramFor(options_.program, lease.task())};
  episode.key = "tmk-" + NewSecret();
  episode.name =
      fmt::format("{}.{}.{}", lease.group(), queued.job.member, NewSecret().substr(0, 12));
  outcome.status = Furnish(episode);
  if (!outcome.status.ok()) return outcome;
  Tenant tenant{.name = "agent-" + episode.name, .id = kAgentTenant, .consent = Consent::kTrain};
  tenant.session = episode.name;
  recorder_.Open(episode.name, TermsOf(queued.job, episode.program));
  if (options_.tools != nullptr) {
    options_.tools->Open(episode.name,
                         {queued.job.group, queued.job.member, &episode.errands, blobs_});
  }
  const Gateway::Guest guest =
      gateway_.Admit(std::move(episode.listening), episode.key, std::move(tenant));
  queued.cancellation->Watch(episode.box.get());
  const RunReport report = Run(episode);
  queued.cancellation->Watch(nullptr);
  gateway_.Dismiss(guest);
  EpisodeTools::Ending called;
  if (options_.tools != nullptr) called = options_.tools->Close(episode.name, *episode.box);
  Result<EpisodeSession> closed = recorder_.Close(episode.name);
  EpisodeSession session = closed.ok() ? std::move(*closed) : EpisodeSession();
  outcome.words = LastWords(report);
  *starved = report.starved;
  if (queued.cancellation->cancelled()) {
    outcome.status = Unavailable("the episode was given up");
  } else if (!closed.ok()) {
    outcome.status = closed.status();
  } else if (!session.failed.ok()) {
    outcome.status = session.failed;
  } else if (!called.failed.ok()) {
    outcome.status = called.failed;
    outcome.failure = Failure::kTool;
  } else if (report.outcome == v1::OUTCOME_UNAVAILABLE) {
    outcome.status = Unavailable(report.cause);
  } else if (report.starved && !last) {
    outcome.status = Unavailable("the machine was too busy");
  } else {
    outcome.end = EndOf(report, session);
    Collect(episode, outcome);
  }
  Record(episode, report, session, outcome);
  outcome.branches = std::move(session.branches);
  outcome.calls = std::move(called.calls);
  return outcome;
}

}  // namespace tidemill
