#include "tinker/sample_desk.h"

#include <algorithm>
#include <utility>

#include "core/hash.h"
#include "core/random.h"
#include "core/threads.h"

namespace tidemill {
namespace {

constexpr size_t kSideJobsMax = 1 << 20;  // scores and reads, bounded by the promises that wait

class NobodysWaker final : public Waker {
 public:
  void Wake() override {}
};

}  // namespace

// What arrived since the last step, and whom to wake.
struct SampleDesk::Inbox {
  Mutex mutex;
  Waker* waker TM_GUARDED_BY(mutex) = nullptr;
  std::vector<std::unique_ptr<SampleJob>> jobs TM_GUARDED_BY(mutex);
  std::vector<Read> reads TM_GUARDED_BY(mutex);
  std::vector<Published> published TM_GUARDED_BY(mutex);
  std::vector<Scored> scored TM_GUARDED_BY(mutex);
  std::vector<Renewed> renewed TM_GUARDED_BY(mutex);

  template <typename T>
  void Put(std::vector<T> Inbox::*list, T item) {
    MutexLock lock(mutex);
    (this->*list).push_back(std::move(item));
    if (waker != nullptr) waker->Wake();
  }
  template <typename T>
  std::vector<T> Take(std::vector<T> Inbox::*list) {
    MutexLock lock(mutex);
    return std::exchange(this->*list, {});
  }
};

SampleDesk::SampleDesk(const BaseModel& base, EnginePort& engine, ModelsPort& models,
                       SampleDeskOptions options)
    : base_(base),
      engine_(engine),
      models_(models),
      options_(std::move(options)),
      inbox_(std::make_shared<Inbox>()),
      side_(kSideJobsMax) {
  side_.Start([](const std::function<void()>& job) { job(); });
}

// The engine, and callbacks that come late, wake nobody any more.
SampleDesk::~SampleDesk() {
  static NobodysWaker nobody;
  engine_.events().Attach(nobody);
  MutexLock lock(inbox_->mutex);
  inbox_->waker = nullptr;
}

void SampleDesk::Submit(SampleJob job) {
  inbox_->Put(&Inbox::jobs, std::make_unique<SampleJob>(std::move(job)));
}

void SampleDesk::Renew(const SampleWeights& which, std::shared_ptr<const Weights> weights) {
  inbox_->Put(&Inbox::renewed, Renewed{which, std::move(weights)});
}

void SampleDesk::Attach(Waker& waker) {
  engine_.events().Attach(waker);
  MutexLock lock(inbox_->mutex);
  inbox_->waker = &waker;
}

Time SampleDesk::Step(Time) {
  for (Renewed& renewed : inbox_->Take(&Inbox::renewed)) TakeRenewed(std::move(renewed));
  for (Read& read : inbox_->Take(&Inbox::reads)) TakeRead(std::move(read));
  for (const Published& published : inbox_->Take(&Inbox::published)) TakePublished(published);
  for (Scored& scored : inbox_->Take(&Inbox::scored)) TakeScored(std::move(scored));
  for (EngineEvent& event : engine_.events().TakeAll()) TakeTurn(std::move(event));
  for (std::unique_ptr<SampleJob>& job : inbox_->Take(&Inbox::jobs)) {
    arrived_.push_back(std::move(job));
  }
  Admit();
  return kNever;
}

// Jobs in their order, as far as there is room for sequences and weights.
void SampleDesk::Admit() {
  size_t coming = sequences_.size();
  for (const auto& [name, resident] : residents_) {
    for (const auto& job : resident->waiting) coming += job->ask.samples;
  }
  while (!arrived_.empty()) {
    SampleJob& job = *arrived_.front();
    if (coming > 0 && coming + job.ask.samples > options_.sequences_max) return;
    const bool known = job.weights.name.empty() || residents_.contains(job.weights.name);
    if (!known && !MakeRoom()) return;
    coming += job.ask.samples;
    std::unique_ptr<SampleJob> taken = std::move(arrived_.front());
    arrived_.pop_front();
    TakeJob(std::move(taken));
  }
}

Status SampleDesk::Fits(SampleAsk& ask) const {
  const auto room = static_cast<int64_t>(base_.context) - static_cast<int64_t>(ask.prompt.size());
  if (room < 1) {
    return Invalid("the prompt has " + std::to_string(ask.prompt.size()) +
                   " tokens; the context has " + std::to_string(base_.context));
  }
  for (const TokenId id : ask.prompt) {
    if (id < base_.vocabulary) continue;
    return Invalid("the prompt has the token " + std::to_string(id) +
                   ", which is not in the vocabulary of " + std::to_string(base_.vocabulary));
  }
  if (ask.score_last >= ask.prompt.size() && ask.score_last > 0) {
    return Invalid("\"prompt_logprobs_last_n\" must be below the prompt's " +
                   std::to_string(ask.prompt.size()) + " tokens");
  }
  TurnParams& turn = ask.turn;
  turn.max_new_tokens = ask.length_given
                            ? static_cast<int32_t>(std::min<int64_t>(turn.max_new_tokens, room))
                            : static_cast<int32_t>(room);
  if (!ask.own_stops) turn.stop_ids = base_.end_ids;
  return Ok();
}

void SampleDesk::TakeJob(std::unique_ptr<SampleJob> job) {
  if (const Status fits = Fits(job->ask); !fits.ok()) {
    return options_.on_done(job->promise, fits);
  }
  if (job->weights.name.empty()) return Begin(std::move(job), nullptr);
  Resident* const resident = ResidentOf(job->weights);
  resident->used = ++uses_;
  if (resident->state != Resident::State::kReady) {
    resident->waiting.push_back(std::move(job));
    return;
  }
  Begin(std::move(job), resident);
}

// Has been made room for. A new one is read from its folder by the side thread.
SampleDesk::Resident* SampleDesk::ResidentOf(const SampleWeights& which) {
  std::unique_ptr<Resident>& resident = residents_[which.name];
  if (resident != nullptr) return resident.get();
  resident = std::make_unique<Resident>();
  resident->which = which;
  resident->policy.policy = static_cast<PolicyId>(next_policy_++);
  side_.Put([this, which, inbox = inbox_] {
    inbox->Put(&Inbox::reads, Read{which.name, models_.ReadSampler(base_, which.folder)});
  });
  return resident.get();
}

// Weights that nobody samples from now leave, those first that were not used for longest.
bool SampleDesk::MakeRoom() {
  if (residents_.size() < options_.resident_max) return true;
  auto oldest = residents_.end();
  for (auto it = residents_.begin(); it != residents_.end(); ++it) {
    const Resident& one = *it->second;
    const bool idle =
        one.state == Resident::State::kReady && one.running == 0 && one.waiting.empty();
    if (idle && (oldest == residents_.end() || one.used < oldest->second->used)) oldest = it;
  }
  if (oldest == residents_.end()) return false;
  engine_.DropPolicy(oldest->second->policy.policy, [](const Status&) {});
  residents_.erase(oldest);
  return true;
}

void SampleDesk::Publish(Resident& resident, std::shared_ptr<const Weights> weights) {
  resident.state = Resident::State::kPublishing;
  resident.weights = weights;
  ++resident.policy.version;
  engine_.Publish(resident.policy, std::move(weights),
                  [inbox = inbox_, name = resident.which.name](Status status) {
                    inbox->Put(&Inbox::published, Published{name, std::move(status)});
                  });
}

void SampleDesk::TakeRead(Read read) {
  const auto it = residents_.find(read.name);
  if (it == residents_.end() || it->second->state != Resident::State::kReading) return;
  Resident& resident = *it->second;
  if (resident.newer != nullptr) return Publish(resident, std::exchange(resident.newer, nullptr));
  if (read.weights.ok()) return Publish(resident, std::move(*read.weights));
  FailWaiting(resident, read.weights.status());
  residents_.erase(it);
}

void SampleDesk::TakePublished(const Published& published) {
  const auto it = residents_.find(published.name);
  if (it == residents_.end()) return;
  Resident& resident = *it->second;
  const bool known = published.status.ok() || resident.policy.version > 1;
  if (!known) {
    FailWaiting(resident, published.status);
    residents_.erase(it);
    return;
  }
  if (resident.newer != nullptr) return Publish(resident, std::exchange(resident.newer, nullptr));
  resident.state = Resident::State::kReady;
  while (!resident.waiting.empty()) {
    std::unique_ptr<SampleJob> job = std::move(resident.waiting.front());
    resident.waiting.pop_front();
    Begin(std::move(job), &resident);
  }
}

void SampleDesk::TakeRenewed(Renewed renewed) {
  const auto it = residents_.find(renewed.which.name);
  if (it == residents_.end()) return;  // it will be read when somebody samples from it
  Resident& resident = *it->second;
  if (resident.state == Resident::State::kReady) {
    Publish(resident, std::move(renewed.weights));
  } else {
    resident.newer = std::move(renewed.weights);
  }
}

void SampleDesk::FailWaiting(Resident& resident, const Status& why) {
  for (const auto& job : resident.waiting) options_.on_done(job->promise, why);
  resident.waiting.clear();
}

void SampleDesk::Begin(std::unique_ptr<SampleJob> job, Resident* resident) {
  const uint64_t id = next_running_++;
  Running& running = running_[id];
  const SampleAsk& ask = job->ask;
  running.resident = resident;
  running.turns_left = ask.samples;
  running.answer.turns.resize(ask.samples);
  if (resident != nullptr) ++resident->running;
  if (ask.NeedsScores()) {
    running.scores_left = true;
    auto weights = resident == nullptr ? nullptr : resident->weights;
    side_.Put([this, id, weights = std::move(weights), prompt = ask.prompt, top = ask.prompt_top,
               inbox = inbox_] {
      inbox->Put(&Inbox::scored, Scored{id, models_.Score(base_, weights, prompt, top)});
    });
  }
  const uint64_t seed = ask.seed.value_or(StableHash(job->promise));
  for (size_t i = 0; i < ask.samples; ++i) {
    SequenceStart start;
    start.id = next_sequence_++;
    start.prompt = ask.prompt;
    start.share_group = ask.samples > 1 ? id : 0;
    start.turn = ask.turn;
    start.turn.seed = MixHash(seed, i);
    if (resident != nullptr) start.policy = resident->policy.policy;
    start.tenant = job->tenant;
    start.session = StableHash(ask.sampler);
    sequences_[start.id] = {id, i};
    engine_.Start(std::move(start));
  }
  running.job = std::move(job);
}

void SampleDesk::TakeTurn(EngineEvent event) {
  const auto it = sequences_.find(event.turn.id);
  if (it == sequences_.end()) return;
  const auto [id, index] = it->second;
  sequences_.erase(it);
  Running& running = running_.at(id);
  if (event.status.ok()) {
    engine_.Release(event.turn.id);
    running.answer.turns[index] = std::move(event.turn);
  } else if (running.failed.ok()) {
    running.failed = event.status;
  }
  --running.turns_left;
  EndIfOver(id);
}

void SampleDesk::TakeScored(Scored scored) {
  const auto it = running_.find(scored.running);
  if (it == running_.end()) return;
  it->second.scores_left = false;
  if (scored.scores.ok()) {
    it->second.answer.scores = std::move(*scored.scores);
  } else if (it->second.failed.ok()) {
    it->second.failed = scored.scores.status();
  }
  EndIfOver(scored.running);
}

void SampleDesk::EndIfOver(uint64_t id) {
  const auto it = running_.find(id);
  Running& running = it->second;
  if (running.turns_left > 0 || running.scores_left) return;
  if (running.resident != nullptr) --running.resident->running;
  if (running.failed.ok()) {
    options_.on_done(running.job->promise, SampleAnswerBytes(running.job->ask, running.answer));
  } else {
    options_.on_done(running.job->promise, running.failed);
  }
  running_.erase(it);
}

}  // namespace tidemill
