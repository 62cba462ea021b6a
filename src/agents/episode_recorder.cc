#include "agents/episode_recorder.h"

#include <algorithm>
#include <utility>

#include "core/number_range.h"
#include "core/random.h"
#include "core/text.h"
#include "gateway/answer.h"
#include "store/store_thread.h"

namespace tidemill {
namespace {

constexpr size_t kRefusalBytes = 1000;
constexpr size_t kTalkBytes = 128;
constexpr const char* kTalkHeader = "x-session-id";
constexpr Duration kClosePatience = std::chrono::seconds(30);

uint64_t HashOf(const std::vector<TokenId>& ids) {
  return StableHash(
      std::string_view(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)));
}

// Why an answer is not trained where the agent goes on from no other, in words; empty: it is.
std::string WhyNotTrained(const v1::SessionTurn& turn) {
  if (turn.choices() > 1) {
    return "the agent asked for " + std::to_string(turn.choices()) +
           " answers at once (n) and went on from none of them";
  }
  if (!turn.untrainable().empty()) {
    return "it was drawn at temperature 0, or by an engine that does not record what truncated "
           "sampling left to draw from (" +
           turn.untrainable() + "); agent.sampling = \"run\" draws as the run does";
  }
  if (turn.cut()) return "the agent left before its end";
  if (!turn.side().empty()) return "it is a helper's turn (" + turn.side() + ")";
  return "";
}

}  // namespace

class EpisodeRecorder::Memory final : public SessionStore {
 public:
  explicit Memory(EpisodeRecorder& owner) : owner_(owner) {}

  void Submit(SessionOp op, uint64_t tag) override {
    if (const auto* turn = std::get_if<PutSessionTurn>(&op)) {
      owner_.TurnStored(turn->turn);
    } else if (const auto& put = std::get<PutSession>(op); put.session.closed_ms() != 0) {
      owner_.Settled(put);
    }
    events_.Post({.tag = tag, .status = Ok()});
  }
  Mailbox<StoreDone>& events() override { return events_; }

 private:
  EpisodeRecorder& owner_;
  Mailbox<StoreDone> events_{kStoreClientCapacity};
};

EpisodeRecorder::EpisodeRecorder(const ServedPolicy& policy, const Clock& clock, size_t episodes,
                                 std::unique_ptr<TurnRecorder> others)
    : PassingRecorder(std::move(others)),
      clock_(clock),
      builder_(policy),
      memory_(std::make_unique<Memory>(*this)) {
  LiveOptions options;
  options.idle = std::chrono::hours(24 * 365);  // the episode's end closes it
  options.max_sessions = episodes + 16;         // closed ones go first
  options.sessions = kEpisodeSessions;
  options.tickets = kEpisodeTickets;
  live_ = std::make_unique<LiveRecorder>(options, builder_, *memory_, clock);
}

EpisodeRecorder::~EpisodeRecorder() = default;

void EpisodeRecorder::Attach(Waker& waker) {
  live_->loop().Attach(waker);
  MutexLock lock(mutex_);
  waker_ = &waker;
}

Time EpisodeRecorder::Step(Time now) {
  return live_->loop().Step(now);
}

bool EpisodeRecorder::Drained() const {
  if (!live_->loop().Drained()) return false;
  MutexLock lock(mutex_);
  return std::all_of(episodes_.begin(), episodes_.end(),
                     [](const auto& one) { return one.second.lost; });
}

void EpisodeRecorder::Open(const std::string& name, const EpisodeTerms& terms) {
  MutexLock lock(mutex_);
  Underway& episode = episodes_[name];
  episode.terms = terms;
  episode.life.last = clock_.Now();
}

EpisodeLife EpisodeRecorder::Look(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto it = episodes_.find(name);
  if (it == episodes_.end()) return {};
  EpisodeLife life = it->second.life;
  life.asking = it->second.open > 0;
  if (life.asking) life.waited += clock_.Now() - it->second.asking_since;
  return life;
}

bool EpisodeRecorder::Answers() const {
  MutexLock lock(mutex_);
  if (turns_ > 0) return true;
  return std::any_of(episodes_.begin(), episodes_.end(),
                     [](const auto& one) { return one.second.open > 0; });
}

void EpisodeRecorder::Refused(const std::string& name, int status, const std::string& why) {
  MutexLock lock(mutex_);
  const auto it = episodes_.find(name);
  if (it == episodes_.end()) return;
  it->second.session.refused =
      "status " + std::to_string(status) + ": " + Beginning(why, kRefusalBytes);
}

size_t EpisodeRecorder::Working() const {
  MutexLock lock(mutex_);
  return static_cast<size_t>(std::count_if(episodes_.begin(), episodes_.end(),
                                           [](const auto& one) { return one.second.open == 0; }));
}

Status EpisodeRecorder::Admit(Underway& episode, uint32_t answers) {
  const uint32_t turns = episode.session.turns + episode.drawing;
  const bool out_of_turns = turns >= episode.terms.max_turns;
  const bool out_of_tokens =
      episode.terms.max_tokens > 0 && episode.tokens >= episode.terms.max_tokens;
  if (!out_of_turns && !out_of_tokens) {
    const uint32_t left = episode.terms.max_turns - turns;
    if (answers <= left) return Ok();
    // Not the end of the episode: it may ask for fewer.
    return Invalid("the request asks for " + std::to_string(answers) + " answers; " +
                   std::to_string(left) + " of the episode's " +
                   std::to_string(episode.terms.max_turns) + " turns are left");
  }
  episode.session.out_of_turns |= out_of_turns;
  episode.session.out_of_tokens |= out_of_tokens;
  episode.life.refused = std::min(episode.life.refused, clock_.Now());
  return Invalid(
      out_of_turns
          ? "the episode has had its " + std::to_string(episode.terms.max_turns) + " turns"
          : "the episode has drawn its " + std::to_string(episode.terms.max_tokens) + " tokens");
}

Result<TurnPrompt> EpisodeRecorder::Prepare(const TurnQuestion& question) {
  const std::string& name = question.tenant.session;
  if (name.empty()) return next().Prepare(question);
  const bool counts = !DrawsAnswer(question.request.api);
  const auto answers = static_cast<uint32_t>(ChoiceCount(question.request));
  {
    MutexLock lock(mutex_);
    const auto it = episodes_.find(name);
    if (it == episodes_.end() || it->second.closing) return Invalid("the episode is over");
    Underway& episode = it->second;
    if (!counts) {
      TM_RETURN_IF_ERROR(Admit(episode, answers));
      episode.drawing += answers;
      if (episode.open++ == 0) episode.asking_since = clock_.Now();
      if (const auto talk = question.headers.find(kTalkHeader); talk != question.headers.end()) {
        episode.talks[question.request_id] = Beginning(talk->second, kTalkBytes);
      }
      episode.life.asked = true;
    }
  }
  Result<TurnPrompt> prompt = live_->Prepare(question);
  if (counts) return prompt;
  MutexLock lock(mutex_);
  Underway& episode = episodes_.at(name);  // Close waits while a request is open
  if (!prompt.ok()) {
    --episode.open;
    episode.drawing -= answers;
    changed_.NotifyAll();
    return prompt;
  }
  asked_[prompt->ticket] = {name, static_cast<int>(answers)};
  by_number_[prompt->session] = name;
  episode.number = prompt->session;
  if (episode.terms.impose) {
    // A question that is asked again gets another answer.
    const uint32_t before = episode.prompts[HashOf(prompt->prompts.at(0))]++;
    prompt->sampling = episode.terms.sampling;
    if (before > 0) prompt->sampling->seed = MixHash(prompt->sampling->seed, before);
  }
  return prompt;
}

void EpisodeRecorder::ChoiceDone(uint64_t ticket) {
  MutexLock lock(mutex_);
  const auto it = asked_.find(ticket);
  if (it == asked_.end() || --it->second.choices > 0) return;
  Underway& episode = episodes_.at(it->second.episode);
  asked_.erase(it);
  LeaveOne(episode);
}

void EpisodeRecorder::LeaveOne(Underway& episode) {
  if (--episode.open == 0) episode.life.waited += clock_.Now() - episode.asking_since;
  episode.life.last = clock_.Now();
  changed_.NotifyAll();
}

void EpisodeRecorder::Enter(const std::string& name) {
  MutexLock lock(mutex_);
  const auto it = episodes_.find(name);
  if (it != episodes_.end() && it->second.open++ == 0) it->second.asking_since = clock_.Now();
}

void EpisodeRecorder::Leave(const std::string& name) {
  MutexLock lock(mutex_);
  if (const auto it = episodes_.find(name); it != episodes_.end()) LeaveOne(it->second);
}

void EpisodeRecorder::Finished(RecordedTurn turn, std::function<void(Status)> stored) {
  if (!kEpisodeTickets.Has(turn.ticket)) return next().Finished(std::move(turn), stored);
  {
    MutexLock lock(mutex_);
    Underway& episode = episodes_.at(asked_.at(turn.ticket).episode);
    --episode.drawing;
    ++episode.session.turns;
    ++turns_;
    episode.tokens += turn.output.ids.size();
    episode.session.out_of_context |= turn.output.finish == TurnFinish::kContext;
  }
  const uint64_t ticket = turn.ticket;
  live_->Finished(std::move(turn), [this, ticket, stored = std::move(stored)](Status status) {
    ChoiceDone(ticket);
    stored(std::move(status));
  });
}

void EpisodeRecorder::TakeFeedback(const FeedbackPost& post,
                                   std::function<void(Result<std::string>)> answered) {
  if (post.tenant.session.empty()) return next().TakeFeedback(post, std::move(answered));
  answered(NotFound("an episode takes no feedback: its task is what judges it"));
}

void EpisodeRecorder::Abandoned(RecordedTurn turn, TurnLoss loss, const Status& why) {
  if (!kEpisodeTickets.Has(turn.ticket)) return next().Abandoned(std::move(turn), loss, why);
  {
    MutexLock lock(mutex_);
    Underway& episode = episodes_.at(asked_.at(turn.ticket).episode);
    --episode.drawing;
    if (!turn.output.ids.empty()) {
      ++episode.session.turns;
      episode.tokens += turn.output.ids.size();
    }
    if (loss == TurnLoss::kTooLong) {
      episode.session.out_of_context = true;
      episode.life.refused = std::min(episode.life.refused, clock_.Now());
    } else if (loss == TurnLoss::kOurs && episode.life.failed.ok()) {
      episode.life.failed = why;
    }
  }
  const uint64_t ticket = turn.ticket;
  live_->Abandoned(std::move(turn), loss, why);
  ChoiceDone(ticket);
}

void EpisodeRecorder::TurnStored(const v1::SessionTurn& turn) {
  MutexLock lock(mutex_);
  const auto it = by_number_.find(turn.session());
  if (it == by_number_.end()) return;
  Underway& episode = episodes_.at(it->second);
  ++episode.stored;
  if (const auto talk = episode.talks.find(turn.request_id()); talk != episode.talks.end()) {
    episode.session.talks[turn.turn()] = talk->second;
  }
  if (const std::string why = WhyNotTrained(turn); !why.empty()) episode.session.untrained = why;
}

void EpisodeRecorder::Settled(const PutSession& put) {
  MutexLock lock(mutex_);
  const auto it = by_number_.find(put.session.number());
  if (it == by_number_.end()) return;
  Underway& episode = episodes_.at(it->second);
  episode.session.branches = put.trajectories;
  episode.settled = true;
  changed_.NotifyAll();
}

Result<EpisodeSession> EpisodeRecorder::Close(const std::string& name) {
  MutexLock lock(mutex_);
  Underway& episode = episodes_.at(name);
  episode.closing = true;
  bool in_time = changed_.WaitFor(lock, kClosePatience,
                                  [&]() TM_REQUIRES(mutex_) { return episode.open == 0; });
  if (in_time && episode.stored > 0) {
    lock.Unlock();
    const Status closed = live_->Close(episode.number, "the agent ended");
    lock.Lock();
    in_time = closed.ok() && changed_.WaitFor(lock, kClosePatience, [&]() TM_REQUIRES(mutex_) {
      return episode.settled;
    });
  }
  EpisodeSession session = std::move(episode.session);
  session.failed = episode.life.failed;
  if (waker_ != nullptr) waker_->Wake();
  if (!in_time) {
    episode.lost = true;
    return Unavailable("the requests of an agent that ended do not end");
  }
  by_number_.erase(episode.number);
  episodes_.erase(name);
  return session;
}

}  // namespace tidemill
