#include "environments/environment_runner.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "core/log.h"
#include "core/mutex.h"
#include "core/random.h"
#include "core/secret.h"
#include "engine/remote/server_processes.h"
#include "environments/chat_talk.h"
#include "environments/claimed_talks.h"
#include "environments/episode_terms.h"
#include "environments/model_words.h"
#include "http/http_pool.h"
#include "http/tcp_streams.h"
#include "rollout/episode.h"

namespace tidemill {
namespace {

constexpr size_t kDoneMax = size_t{1} << 20;
constexpr size_t kBodyMax = size_t{16} << 20;
constexpr Duration kRoomPause = milliseconds(500);  // before a full server is tried again
constexpr int kTooMany = 429;                       // the gateway's limit of requests at once
constexpr Duration kWatchEvery = std::chrono::seconds(1);
constexpr Duration kModelPatience = std::chrono::hours(6);  // waiting for the model is no failure

// An attempt that is over, on its way to its session's end.
struct Closing {
  uint64_t tag = 0;
  std::string session;  // empty: none was opened
  AgentOutcome outcome;
  std::vector<ClaimedTalk> talks{};  // EndEpisode's
};

}  // namespace

class EnvironmentRunner::Impl {
 public:
  Impl(EnvironmentRunnerOptions options, Gateway& gateway, EpisodeRecorder& recorder,
       const Clock& clock)
      : gateway_(gateway), recorder_(recorder), clock_(clock), streams_(pool_), events_(kDoneMax) {
    for (EnvironmentServers& one : options.environments) {
      Place& place = places_.emplace_back();
      place.of = std::move(one);
      place.servers.resize(place.of.urls.size());
    }
    gateway_text_ = gateway.url();
    while (gateway_text_.ends_with('/')) gateway_text_.pop_back();
    gateway_url_ = ParseHttpUrl(gateway_text_).value();
  }

  Status StartServers(const std::string& log_folder) {
    for (Place& place : places_) {
      if (place.of.command.empty()) continue;
      place.server_key = FillModelWords(gateway_text_, place.of.command);
      TM_ASSIGN_OR_RETURN(ServerProcesses processes,
                          ServerProcesses::Start({.words = place.of.command,
                                                  .log_folder = log_folder,
                                                  .name = "environment-" + place.of.name},
                                                 1));
      place.processes.emplace(std::move(processes));
      place.of.urls = place.processes->urls();
      place.servers.resize(place.of.urls.size());
    }
    wire_ = std::thread([this] { pool_.Run([this] { return Step(); }); });
    closer_ = std::thread([this] { RunCloser(); });
    return Ok();
  }

  ~Impl() {
    if (wire_.joinable()) {
      pool_.Stop();
      wire_.join();
    }
    for (auto& [tag, attempt] : attempts_) Leave(*attempt);
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    if (closer_.joinable()) closer_.join();
  }

  void Post(std::function<void()> command) {
    {
      MutexLock lock(mutex_);
      commands_.push_back(std::move(command));
    }
    pool_.Wake();
  }

  void Begin(AgentJob job, uint64_t tag);
  void GiveUp(uint64_t tag);
  Mailbox<AgentDone>& events() { return events_; }
  Counts counts() const {
    return {.ended = ended_, .waited = waited_, .failed = failed_, .bad_actions = bad_actions_};
  }

 private:
  struct Server {
    size_t episodes = 0;
    Time full_until = Time::min();
  };
  struct Waiting {
    AgentJob job;
    uint64_t tag = 0;
    Time since{};
  };
  struct Place {
    EnvironmentServers of;
    std::string server_key{};  // its servers ask the model with it and their number; empty: with an
                               // episode's own
    std::optional<ServerProcesses> processes{};
    std::vector<Server> servers{};
    std::deque<Waiting> waiting{};
  };
  class Attempt;

  Time Step();
  void WatchServers(Time now);
  Time StartWaiting(Time now);
  std::optional<size_t> RoomIn(const Place& place, Time now) const;
  void AddServer(Place& place);
  void StartAttempt(Place& place, size_t server, Waiting waiting);
  void Leave(Attempt& attempt);
  void Conclude(Attempt& attempt, AgentOutcome outcome, std::vector<ClaimedTalk> talks = {});
  void Fail(Attempt& attempt, Failure failure, const std::string& why);
  void PassOn(Closing closing);
  void RunCloser();
  void Settle(Closing& closing);

  Gateway& gateway_;
  EpisodeRecorder& recorder_;
  const Clock& clock_;
  std::string gateway_text_;
  HttpUrl gateway_url_;
  HttpPool pool_;
  TcpStreams streams_;
  // The wire's thread:
  std::deque<Place> places_;
  std::map<uint64_t, std::unique_ptr<Attempt>> attempts_;  // by tag
  std::vector<std::unique_ptr<Attempt>> over_;             // let go between two events
  std::set<std::pair<Time, uint64_t>> deadlines_;          // with the tag
  Time watch_at_ = Time::min();

  Mailbox<AgentDone> events_;
  std::atomic<uint64_t> ended_{0}, waited_{0}, failed_{0}, bad_actions_{0};
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::function<void()>> commands_ TM_GUARDED_BY(mutex_);
  std::deque<Closing> closing_ TM_GUARDED_BY(mutex_);
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::thread wire_, closer_;
};

// One try at an episode. All of it on the wire's thread.
class EnvironmentRunner::Impl::Attempt final : public HttpCallUser, public StreamUser {
 public:
  Attempt(Impl& owner, Place& place, size_t server, Waiting job, std::string session,
          std::string key)
      : owner_(owner),
        place_(place),
        server_(server),
        job_(std::move(job)),
        session_(std::move(session)),
        key_(std::move(key)) {
    const v1::GroupLease& lease = job_.job.group->lease;
    driver_ = place.of.standard->make({.task = lease.task(),
                                       .server = url(),
                                       .name = place.of.name,
                                       .mode = place.of.mode,
                                       .max_turns = lease.max_turns(),
                                       .max_turn_tokens = lease.sampling().max_turn_tokens(),
                                       .temperature = lease.sampling().temperature(),
                                       .seed = MixHash(lease.seed(), job_.job.member),
                                       .model_url = owner.gateway_text_,
                                       .model_key = key_});
  }

  void Begin() {
    if (driver_->UsesStream()) {
      stream_ = owner_.streams_.Open(url(), *this);
      return Await();
    }
    Do(driver_->Begin());
  }

  // Everything under way ends, and nothing is told any more.
  void Close() {
    Expect(kNever);
    if (call_ != 0) owner_.pool_.Cancel(std::exchange(call_, 0));
    if (stream_ == 0) return;
    owner_.streams_.Send(stream_, driver_->Farewell());
    owner_.streams_.Close(std::exchange(stream_, 0));
  }

  void OnOpen(StreamId) override { Do(driver_->Begin()); }
  void OnBytes(StreamId, std::string_view bytes) override {
    std::optional<DriverStep> next = driver_->OnBytes(bytes);
    if (next) return Do(std::move(*next));
    Flush();
  }
  void OnLost(StreamId, const Status& why) override {
    stream_ = 0;
    Fail(Failure::kConnection, why.message());
  }

  void OnHead(HttpCallId, const std::vector<std::pair<std::string, std::string>>& fields) override {
    answer_.fields = fields;
  }
  void OnPiece(HttpCallId call, int, std::string_view bytes) override {
    if (answer_.body.size() + bytes.size() <= kBodyMax) return void(answer_.body.append(bytes));
    owner_.pool_.Cancel(call);
    call_ = 0;
    Fail(Failure::kEnvironment, "its answer is larger than 16 MiB");
  }
  void OnEnd(HttpCallId, const Result<int>& status) override {
    call_ = 0;
    EnvironmentAnswer answer = std::exchange(answer_, {});
    if (!status.ok()) {
      if (asks_model_) return Fail(Failure::kAgent, status.status().message());
      const bool late = status.status().message().find("in time") != std::string::npos;
      return Fail(late ? Failure::kTimeout : Failure::kConnection, status.status().message());
    }
    answer.status = *status;
    if (asks_model_ && *status == kTooMany) return Expect(owner_.clock_.Now() + kRoomPause);
    Do(asks_model_ ? driver_->OnModel(answer) : driver_->OnAnswer(answer));
  }

  void OnDeadline() {
    if (asks_model_) return AskTheModel();  // the gateway had no room
    if (driver_->AsksModelItself()) {
      const EpisodeLife life = owner_.recorder_.Look(session_);
      const Time silent_since = life.asking ? owner_.clock_.Now() : life.last;
      const Time late = silent_since + place_.of.timeout;
      if (late > owner_.clock_.Now()) return Expect(late);
    }
    Fail(Failure::kTimeout, "it does not answer in time");
  }

  Place& place() { return place_; }
  size_t server() const { return server_; }
  const Waiting& job() const { return job_; }
  const std::string& session() const { return session_; }
  const std::string& key() const { return key_; }
  bool asked() const { return asked_ || owner_.recorder_.Look(session_).asked; }
  // It asked for more than its terms allow, and was refused.
  bool over_limits() const {
    return driver_->AsksModelItself() && owner_.recorder_.Look(session_).refused != kNever;
  }
  Time deadline() const { return deadline_; }
  void set_deadline(Time at) { deadline_ = at; }

 private:
  const HttpUrl& url() const { return place_.of.urls[server_]; }

  void Flush() {
    if (stream_ != 0) owner_.streams_.Send(stream_, driver_->TakeOutput());
    owner_.bad_actions_ += driver_->TakeBadActions();
  }

  void Expect(Time at) {
    owner_.deadlines_.erase({deadline_, job_.tag});
    deadline_ = at;
    if (at != kNever) owner_.deadlines_.insert({at, job_.tag});
  }
  void Await() { Expect(owner_.clock_.Now() + place_.of.timeout); }

  void Fail(Failure failure, const std::string& why) { owner_.Fail(*this, failure, why); }

  void Do(DriverStep step) {
    Flush();
    Expect(kNever);
    if (call_ != 0) owner_.pool_.Cancel(std::exchange(call_, 0));
    asks_model_ = false;
    if (auto* call = std::get_if<CallEnvironment>(&step)) {
      answer_ = {};
      const Duration silence = call->whole_episode ? kModelPatience : place_.of.timeout;
      call_ = owner_.pool_.Begin(url(), call->ask, silence, *this);
      if (call->whole_episode) Await();
    } else if (auto* ask = std::get_if<AskModel>(&step)) {
      question_ = std::move(*ask);
      AskTheModel();
    } else if (auto* end = std::get_if<EndEpisode>(&step)) {
      AgentOutcome outcome;
      outcome.words = std::move(end->words);
      outcome.reward = std::move(end->reward);
      owner_.Conclude(*this, std::move(outcome), std::move(end->talks));
    } else if (auto* fail = std::get_if<FailEpisode>(&step)) {
      Fail(fail->failure, fail->why);
    } else {
      Await();
    }
  }

  void AskTheModel() {
    Expect(kNever);
    asks_model_ = asked_ = true;
    answer_ = {};
    HttpAsk request;
    request.target = question_.path;
    request.headers = {{"Authorization", "Bearer " + key_}, {"Content-Type", "application/json"}};
    request.body = question_.body.dump(-1, ' ', false, EnvironmentJson::error_handler_t::replace);
    call_ = owner_.pool_.Begin(owner_.gateway_url_, request, kModelPatience, *this);
  }

  Impl& owner_;
  Place& place_;
  const size_t server_;
  const Waiting job_;
  const std::string session_, key_;
  std::unique_ptr<EpisodeDriver> driver_;
  HttpCallId call_ = 0;
  StreamId stream_ = 0;
  AskModel question_;         // the newest
  EnvironmentAnswer answer_;  // of the call under way
  bool asks_model_ = false;   // the call under way does
  bool asked_ = false;        // the model, at least once
  Time deadline_ = kNever;
};

void EnvironmentRunner::Impl::Begin(AgentJob job, uint64_t tag) {
  const std::string& name = job.group->lease.task().environment().environment();
  for (Place& place : places_) {
    const bool it = name.empty() ? places_.size() == 1 : place.of.name == name;
    if (!it) continue;
    place.waiting.push_back({std::move(job), tag, clock_.Now()});
    return;
  }
  Closing closing{.tag = tag, .session = {}, .outcome = {}};
  closing.outcome.failure = Failure::kMasked;
  closing.outcome.status = Invalid("task " + job.group->lease.task().id() +
                                   ": there is no [[environment]] \"" + name + "\"");
  PassOn(std::move(closing));
}

void EnvironmentRunner::Impl::GiveUp(uint64_t tag) {
  if (const auto it = attempts_.find(tag); it != attempts_.end()) {
    AgentOutcome outcome;
    outcome.status = Unavailable("the episode was given up");
    return Conclude(*it->second, std::move(outcome));
  }
  for (Place& place : places_) {
    const size_t erased =
        std::erase_if(place.waiting, [tag](const Waiting& one) { return one.tag == tag; });
    if (erased == 0) continue;
    Closing closing{.tag = tag, .session = {}, .outcome = {}};
    closing.outcome.status = Unavailable("the episode was given up");
    return PassOn(std::move(closing));
  }
}

Time EnvironmentRunner::Impl::Step() {
  over_.clear();
  std::vector<std::function<void()>> commands;
  {
    MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
  const Time now = clock_.Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    attempts_.at(deadlines_.begin()->second)->OnDeadline();
  }
  WatchServers(now);
  Time next = StartWaiting(now);
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  return std::min(next, watch_at_);
}

void EnvironmentRunner::Impl::WatchServers(Time now) {
  if (now < watch_at_) return;
  watch_at_ = kNever;
  for (Place& place : places_) {
    if (!place.processes) continue;
    watch_at_ = now + kWatchEvery;
    for (const size_t server : place.processes->Watch(now)) {
      LogWarn("an environment's server was started again",
              {{"environment", place.of.name}, {"server", std::to_string(server)}});
    }
  }
}

std::optional<size_t> EnvironmentRunner::Impl::RoomIn(const Place& place, Time now) const {
  std::optional<size_t> best;
  for (size_t i = 0; i < place.servers.size(); ++i) {
    const Server& server = place.servers[i];
    if (server.episodes >= place.of.slots || server.full_until > now) continue;
    if (!best || server.episodes < place.servers[*best].episodes) best = i;
  }
  return best;
}

// While episodes wait and all servers are at work; one that only starts is waited for.
void EnvironmentRunner::Impl::AddServer(Place& place) {
  const auto at_work = [&](const Server& server) { return server.episodes >= place.of.slots; };
  const bool grows = place.processes && place.servers.size() < place.of.servers &&
                     std::all_of(place.servers.begin(), place.servers.end(), at_work);
  if (!grows) return;
  if (const Status added = place.processes->Add(); !added.ok()) {
    place.of.servers = place.servers.size();
    return LogWarn("no further server of an environment can be started",
                   {{"environment", place.of.name}, {"why", added.message()}});
  }
  place.of.urls = place.processes->urls();
  place.servers.resize(place.of.urls.size());
  pool_.Wake();
}

Time EnvironmentRunner::Impl::StartWaiting(Time now) {
  Time next = kNever;
  for (Place& place : places_) {
    while (!place.waiting.empty()) {
      const std::optional<size_t> server = RoomIn(place, now);
      if (!server) break;
      Waiting waiting = std::move(place.waiting.front());
      place.waiting.pop_front();
      StartAttempt(place, *server, std::move(waiting));
    }
    if (place.waiting.empty()) continue;
    AddServer(place);
    for (const Server& server : place.servers) {
      if (server.full_until > now) next = std::min(next, server.full_until);
    }
  }
  return next;
}

void EnvironmentRunner::Impl::StartAttempt(Place& place, size_t server, Waiting waiting) {
  const uint64_t tag = waiting.tag;
  const v1::GroupLease& lease = waiting.job.group->lease;
  const std::string session = std::to_string(lease.group()) + "." +
                              std::to_string(waiting.job.member) + "." + NewSecret().substr(0, 12);
  const std::string key = place.server_key.empty()
                              ? "tmk-" + NewSecret()
                              : place.server_key + "-" + std::to_string(server);
  Tenant tenant{.name = "environment-" + session, .id = kAgentTenant, .consent = Consent::kTrain};
  tenant.session = session;
  recorder_.Open(session, EnvironmentTermsOf(waiting.job));
  gateway_.Invite(key, std::move(tenant));
  ++place.servers[server].episodes;
  auto attempt = std::make_unique<Attempt>(*this, place, server, std::move(waiting), session, key);
  Attempt& started = *attempt;
  attempts_[tag] = std::move(attempt);
  started.Begin();
}

void EnvironmentRunner::Impl::Leave(Attempt& attempt) {
  attempt.Close();
  gateway_.Uninvite(attempt.key());
  --attempt.place().servers[attempt.server()].episodes;
}

void EnvironmentRunner::Impl::Conclude(Attempt& attempt, AgentOutcome outcome,
                                       std::vector<ClaimedTalk> talks) {
  Leave(attempt);
  (outcome.status.ok() ? ended_ : failed_) += 1;
  Place& place = attempt.place();
  // What is left of it must not ask in the next episode's name.
  const bool lingers = !outcome.status.ok() && !place.server_key.empty() && place.processes;
  if (lingers) place.processes->Kill(attempt.server());
  PassOn({.tag = attempt.job().tag,
          .session = attempt.session(),
          .outcome = std::move(outcome),
          .talks = std::move(talks)});
  const auto it = attempts_.find(attempt.job().tag);
  over_.push_back(std::move(it->second));
  attempts_.erase(it);
  pool_.Wake();  // somebody may wait for its place
}

// Where there is no room, and where a server is not there yet, nothing was lost: the episode waits.
void EnvironmentRunner::Impl::Fail(Attempt& attempt, Failure failure, const std::string& why) {
  Place& place = attempt.place();
  const Time now = clock_.Now();
  const bool unstarted = failure == Failure::kConnection && !attempt.asked();
  const bool waits = RowOf(failure).deed == FailureDeed::kWait || unstarted;
  if (waits) place.servers[attempt.server()].full_until = now + kRoomPause;
  if (waits && now - attempt.job().since < place.of.patience) {
    ++waited_;
    Waiting again = attempt.job();
    Leave(attempt);
    PassOn({.tag = 0, .session = attempt.session(), .outcome = {}});
    const auto it = attempts_.find(again.tag);
    over_.push_back(std::move(it->second));
    attempts_.erase(it);
    place.waiting.push_back(std::move(again));
    return pool_.Wake();
  }
  if (failure == Failure::kEnvironment && attempt.over_limits()) {
    // The environment's own loop ended where the agent's turns did: the agent's end, and it paid
    // nothing.
    AgentOutcome outcome;
    outcome.words = "it was refused what is over its limits: " + why;
    outcome.reward.emplace().set_environment(place.of.name);
    AddReward({.name = "reward", .value = 0}, *outcome.reward);
    return Conclude(attempt, std::move(outcome));
  }
  LogEvery(std::chrono::seconds(10), "environment-failed", LogLevel::kWarn,
           "an episode's environment failed",
           {{"environment", place.of.name}, {"why", FailureText(failure, why)}});
  AgentOutcome outcome;
  outcome.failure = failure;
  outcome.status = Unavailable(why);
  Conclude(attempt, std::move(outcome));
}

void EnvironmentRunner::Impl::PassOn(Closing closing) {
  {
    MutexLock lock(mutex_);
    closing_.push_back(std::move(closing));
  }
  changed_.NotifyAll();
}

// Sessions end on a thread of their own: the recorder may have to wait for a turn to be stored.
void EnvironmentRunner::Impl::RunCloser() {
  for (;;) {
    Closing closing;
    {
      MutexLock lock(mutex_);
      changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stopping_ || !closing_.empty(); });
      if (stopping_) return;
      closing = std::move(closing_.front());
      closing_.pop_front();
    }
    Settle(closing);
    if (closing.tag != 0) events_.Post({.tag = closing.tag, .outcome = std::move(closing.outcome)});
  }
}

void EnvironmentRunner::Impl::Settle(Closing& closing) {
  if (closing.session.empty()) return;
  Result<EpisodeSession> closed = recorder_.Close(closing.session);
  AgentOutcome& outcome = closing.outcome;
  if (!outcome.status.ok()) return;
  outcome.failure = Failure::kAgent;
  outcome.status = closed.status();
  if (!closed.ok()) return;
  outcome.status = closed->failed;
  outcome.end = EndedBy(*closed);
  outcome.log.set_ended(outcome.words);
  outcome.log.set_answers(closed->turns);
  if (closed->branches.empty()) {
    outcome.log.set_untrained(closed->turns == 0 ? "it ended without an answer of the model"
                                                 : closed->untrained);
  }
  outcome.branches = std::move(closed->branches);
  if (closing.talks.empty()) return;
  const Status same = HoldAgainst(closing.talks, *closed, outcome.branches);
  if (same.ok()) return;
  outcome.failure = Failure::kEnvironment;
  outcome.status = same;
}

EnvironmentRunner::EnvironmentRunner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EnvironmentRunner::~EnvironmentRunner() = default;

Result<std::unique_ptr<EnvironmentRunner>> EnvironmentRunner::Create(
    EnvironmentRunnerOptions options, Gateway& gateway, EpisodeRecorder& recorder,
    const Clock& clock) {
  const std::string log_folder = options.log_folder;
  auto impl = std::make_unique<Impl>(std::move(options), gateway, recorder, clock);
  TM_RETURN_IF_ERROR(impl->StartServers(log_folder));
  return std::unique_ptr<EnvironmentRunner>(new EnvironmentRunner(std::move(impl)));
}

void EnvironmentRunner::Start(AgentJob job, uint64_t tag) {
  impl_->Post([this, job = std::move(job), tag] { impl_->Begin(job, tag); });
}

void EnvironmentRunner::Cancel(uint64_t tag) {
  impl_->Post([this, tag] { impl_->GiveUp(tag); });
}

Mailbox<AgentDone>& EnvironmentRunner::events() {
  return impl_->events();
}

EnvironmentRunner::Counts EnvironmentRunner::counts() const {
  return impl_->counts();
}

}  // namespace tidemill
