#include "judge/judge_loop.h"

#include <algorithm>
#include <cmath>

#include "bus/read_message.h"
#include "core/hash.h"
#include "core/metrics.h"
#include "core/text.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr size_t kRequestsAtOnce = 64;
constexpr size_t kPromptKept = 32 * 1024;  // of what is stored with a verdict

// A pair was asked about in both orders: the mean, and how far the order mattered.
v1::Judgement MergePair(const v1::Judgement& first, const v1::Judgement& second) {
  v1::Judgement merged = first;
  merged.set_value((first.value() + second.value()) / 2);
  merged.set_probability((first.probability() + second.probability()) / 2);
  merged.set_spread(
      std::max({first.spread(), second.spread(), std::abs(first.value() - second.value()) / 2}));
  for (const v1::JudgeVote& vote : second.votes()) *merged.add_votes() = vote;
  return merged;
}

// The cache holds what was said of the first of a pair, whichever of the two it is asked for.
v1::JudgeVote Turned(v1::JudgeVote vote, const JudgeQuestion& question) {
  if (question.swapped) vote.set_value(1 - vote.value());
  return vote;
}

}  // namespace

JudgeLoop::JudgeLoop(Bus& bus, const Clock& clock, JudgeOptions options, JudgePort& port)
    : bus_(bus),
      clock_(clock),
      options_(std::move(options)),
      port_(port),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period) {
  VoteCaches& votes = options_.votes != nullptr ? *options_.votes : own_votes_;
  for (const JudgeConfig& keys : options_.judges) {
    const uint64_t seed = MixHash(options_.seed, StableHash(keys.name));
    endpoints_.push_back({keys,
                          ParseJudgeTask(keys.task).value(),
                          EndpointGuard({.per_minute = keys.per_minute}, seed),
                          &votes.Of(keys.name, keys.cache),
                          {},
                          {},
                          0});
  }
}

void JudgeLoop::Attach(Waker& waker) {
  bus_.Subscribe(kJudgeTopic, waker);
  port_.events().Attach(waker);
}

Time JudgeLoop::Step(Time now) {
  TakeDone(now);
  for (const Call& call : later_.TakeDue(now)) endpoints_[call.judge].waiting.push_back(call);
  GiveUpLate(now);
  for (const uint64_t key : leases_.Extend(now)) askings_.erase(key);  // another worker's now
  if (!draining_) TakeRequests(now);
  StartCalls(now);
  outbox_.Flush(now);
  counters_.in_progress = askings_.size();
  size_t waiting = 0;
  uint64_t breaks = 0;
  for (const Endpoint& endpoint : endpoints_) {
    waiting += endpoint.waiting.size();
    breaks += endpoint.guard.breaks();
  }
  counters_.waiting = waiting;
  counters_.breaks = breaks;
  return NextWake(now);
}

Time JudgeLoop::NextWake(Time now) const {
  Time wake = std::min(
      {now + milliseconds(500), leases_.next(), later_.next(), deadlines_.next(), lost_.next()});
  if (outbox_.waiting() > 0) wake = std::min(wake, now + milliseconds(5));
  for (const Endpoint& endpoint : endpoints_) {
    if (endpoint.waiting.empty() || endpoint.running >= endpoint.keys.concurrency) continue;
    wake = std::min(wake, endpoint.guard.next(now));
  }
  return wake;
}

void JudgeLoop::TakeRequests(Time now) {
  const size_t room =
      options_.max_outstanding - std::min<size_t>(options_.max_outstanding, askings_.size());
  for (Lease& lease : TakeFrom(bus_, kJudgeTopic, std::min(room, kRequestsAtOnce))) {
    v1::JudgeRequest request;
    if (!ReadOrReject(bus_, lease, request, options_.limits)) continue;
    const uint64_t key = next_key_++;
    askings_[key].request = std::move(request);
    leases_.Hold(key, std::move(lease), now);
    Begin(key, now);
  }
}

void JudgeLoop::Begin(uint64_t key, Time now) {
  Asking& asking = askings_.at(key);
  const std::string& name = asking.request.judge();
  const auto judge = std::find_if(endpoints_.begin(), endpoints_.end(),
                                  [&](const Endpoint& e) { return e.keys.name == name; });
  if (judge == endpoints_.end()) {
    Refuse(key, "no [[judge]] is named \"" + Beginning(name, 100) + "\"");
    return;
  }
  deadlines_.Put(now + judge->keys.patience, key);
  const auto index = static_cast<size_t>(judge - endpoints_.begin());
  for (JudgeQuestion& question : QuestionsOf(judge->task, asking.request)) {
    Item& item = asking.items.emplace_back();
    item.prompt = MakeJudgePrompt(judge->keys, question);
    item.question = std::move(question);
  }
  asking.open = asking.items.size();
  if (asking.items.empty()) return Answer(key);
  const size_t items = asking.items.size();
  for (size_t i = 0; i < items; ++i) AskVotes(key, i, index);
}

void JudgeLoop::AskVotes(uint64_t key, size_t item, size_t judge) {
  askings_.at(key).items[item].judge = judge;
  Endpoint& endpoint = endpoints_[judge];
  for (uint32_t vote = 0; vote < endpoint.keys.votes; ++vote)
    endpoint.waiting.push_back({key, item, vote, judge});
}

std::string JudgeLoop::CacheKey(const Item& item, const Call& call) const {
  const JudgeConfig& keys = endpoints_[call.judge].keys;
  return Sha256Hex(keys.name + "\n" + std::to_string(keys.version) + "\n" +
                   std::to_string(call.vote) + "\n" + item.prompt.system + "\n" + item.prompt.user);
}

// Null: nobody waits for it any more, or another judge has been asked meanwhile.
JudgeLoop::Item* JudgeLoop::FindItem(const Call& call) {
  const auto asking = askings_.find(call.asking);
  if (asking == askings_.end()) return nullptr;
  Item& item = asking->second.items[call.item];
  return item.done || item.judge != call.judge ? nullptr : &item;
}

void JudgeLoop::StartCalls(Time now) {
  // Indexes: a vote may end an item and put questions to another judge.
  for (size_t judge = 0; judge < endpoints_.size(); ++judge) {
    Endpoint& endpoint = endpoints_[judge];
    while (!endpoint.waiting.empty() && endpoint.running < endpoint.keys.concurrency) {
      const Call call = endpoint.waiting.front();
      Item* item = FindItem(call);
      if (item == nullptr) {
        endpoint.waiting.pop_front();
        continue;
      }
      const std::string& session = askings_.at(call.asking).request.session();
      std::string key = CacheKey(*item, call);
      if (auto vote = endpoint.cache->Find(key, session)) {
        endpoint.waiting.pop_front();
        ++counters_.cached;
        AddVote(call, Turned(std::move(*vote), item->question));
        continue;
      }
      const auto same = endpoint.same.find(key);
      if (same != endpoint.same.end()) {  // its answer will be in the cache
        endpoint.waiting.pop_front();
        same->second.push_back(call);
        continue;
      }
      if (!endpoint.guard.MayStart(now)) break;
      endpoint.waiting.pop_front();
      if (endpoint.keys.cache > 0) endpoint.same[key];
      endpoint.guard.Started(now);
      ++endpoint.running;
      ++counters_.calls;
      const uint64_t tag = next_tag_++;
      running_.emplace(tag, Running{call, std::move(key)});
      lost_.Put(now + endpoint.keys.timeout + options_.grace, tag);
      const uint64_t seed = MixHash(MixHash(options_.seed, call.vote), call.tries);
      port_.Submit({tag, endpoint.keys.name, item->prompt, seed});
    }
  }
}

void JudgeLoop::TakeDone(Time now) {
  for (JudgeDone& done : port_.events().TakeAll()) {
    const std::optional<Call> call = TakeRunning(done.tag);
    if (call) OnDone(*call, std::move(done), now);
  }
}

// Nothing: it was given up before. Who waited for the same answer looks for it in the cache.
std::optional<JudgeLoop::Call> JudgeLoop::TakeRunning(uint64_t tag) {
  auto node = running_.extract(tag);
  if (node.empty()) return std::nullopt;
  const Running& running = node.mapped();
  Endpoint& endpoint = endpoints_[running.call.judge];
  --endpoint.running;
  if (auto same = endpoint.same.extract(running.key); !same.empty()) {
    endpoint.waiting.insert(endpoint.waiting.begin(), same.mapped().begin(), same.mapped().end());
  }
  return running.call;
}

void JudgeLoop::OnDone(const Call& call, JudgeDone done, Time now) {
  Endpoint& endpoint = endpoints_[call.judge];
  const JudgeConfig& keys = endpoint.keys;
  counters_.tokens_in += done.reply.tokens_in;
  counters_.tokens_out += done.reply.tokens_out;
  // A price for a million tokens is one for each in millionths.
  counters_.cost += static_cast<uint64_t>(
      std::llround(keys.price_in * static_cast<double>(done.reply.tokens_in) +
                   keys.price_out * static_cast<double>(done.reply.tokens_out)));
  counters_.busy += static_cast<uint64_t>(Seconds(done.took) * 1e6);
  if (options_.done) options_.done(done);
  if (options_.metrics != nullptr) {
    options_.metrics
        ->Histogram("tidemill_judge_seconds", "Time of one answer of a judge's model",
                    {{"judge", keys.name}})
        .Observe(Seconds(done.took));
  }
  v1::JudgeVote vote;
  vote.set_judge(keys.name);
  if (!done.status.ok()) {
    ++counters_.failed;
    endpoint.guard.Failed(now, done.wait);
    vote.set_cause(done.status.message());
    if (done.status.code() == Code::kInvalid)
      AddVote(call, std::move(vote));
    else
      TryAgain(call, std::move(vote), now);
    return;
  }
  endpoint.guard.Succeeded();
  const Item* item = FindItem(call);
  if (item == nullptr) return;
  vote = ReadVote(keys, item->question, done.reply, options_.tracer);
  if (!vote.valid()) {
    ++counters_.malformed;
    TryAgain(call, std::move(vote), now);
    return;
  }
  endpoint.cache->Put(CacheKey(*item, call), askings_.at(call.asking).request.session(),
                      Turned(vote, item->question));
  AddVote(call, std::move(vote));
}

void JudgeLoop::TryAgain(Call call, v1::JudgeVote failed, Time now) {
  Endpoint& endpoint = endpoints_[call.judge];
  if (call.tries >= endpoint.keys.retries) return AddVote(call, std::move(failed));
  ++counters_.retries;
  const Duration delay = BackOff(options_.retry_delay, call.tries++);
  later_.Put(now + endpoint.guard.Jittered(delay), call);
}

void JudgeLoop::AddVote(const Call& call, v1::JudgeVote vote) {
  Item* item = FindItem(call);
  if (item == nullptr) return;
  item->votes.push_back(std::move(vote));
  if (item->votes.size() == endpoints_[call.judge].keys.votes) CountItem(call.asking, call.item);
}

// All votes are in.
void JudgeLoop::CountItem(uint64_t key, size_t index) {
  Item& item = askings_.at(key).items[index];
  const JudgeConfig& keys = endpoints_[item.judge].keys;
  const auto valid = std::count_if(item.votes.begin(), item.votes.end(),
                                   [](const v1::JudgeVote& vote) { return vote.valid(); });
  const bool enough = static_cast<size_t>(valid) * 2 > item.votes.size();
  const bool is_second = !item.first_votes.empty();
  if (!enough && !is_second) {
    const auto failed = std::find_if(item.votes.begin(), item.votes.end(),
                                     [](const v1::JudgeVote& vote) { return !vote.valid(); });
    Refuse(key, "judge " + keys.name + ": " + std::to_string(item.votes.size() - valid) + " of " +
                    std::to_string(item.votes.size()) + " votes failed: " + failed->cause());
    return;
  }
  // A second judge that is away leaves what the first one said.
  const std::vector<v1::JudgeVote>& votes = enough ? item.votes : item.first_votes;
  v1::Judgement judgement = CountVotes(keys, item.question, votes);
  if (is_second && enough) {
    for (const v1::JudgeVote& vote : item.first_votes) *judgement.add_votes() = vote;
  }
  const bool split = judgement.spread() > 0;
  if (split && !is_second) ++counters_.split;
  if (split && !is_second && !keys.second.empty()) {
    ++counters_.second;
    item.first_votes = std::move(item.votes);
    item.votes.clear();
    const auto second = std::find_if(endpoints_.begin(), endpoints_.end(),
                                     [&](const Endpoint& e) { return e.keys.name == keys.second; });
    TM_CHECK(second != endpoints_.end(), "the config was checked");
    AskVotes(key, index, static_cast<size_t>(second - endpoints_.begin()));
    return;
  }
  FinishItem(key, index, std::move(judgement));
}

void JudgeLoop::FinishItem(uint64_t key, size_t index, v1::Judgement judgement) {
  Asking& asking = askings_.at(key);
  Item& item = asking.items[index];
  ++counters_.judgements;
  judgement.set_prompt(Beginning(item.prompt.user, kPromptKept));
  // Verdicts are told apart by the judge that was asked, whoever decided.
  const auto asked = std::find_if(endpoints_.begin(), endpoints_.end(), [&](const Endpoint& e) {
    return e.keys.name == asking.request.judge();
  });
  judgement.set_judge(asked->keys.name);
  judgement.set_version(asked->keys.version);
  item.judgement = std::move(judgement);
  item.done = true;
  if (--asking.open == 0) Answer(key);
}

void JudgeLoop::Answer(uint64_t key) {
  Asking& asking = askings_.at(key);
  v1::JudgeAnswer answer;
  answer.set_available(true);
  for (size_t i = 0; i < asking.items.size(); ++i) {
    Item& item = asking.items[i];
    if (item.question.task == v1::JUDGE_TASK_PAIRWISE)  // its other order follows
      *answer.add_judgements() = MergePair(item.judgement, asking.items[++i].judgement);
    else
      *answer.add_judgements() = std::move(item.judgement);
  }
  Send(key, std::move(answer));
}

void JudgeLoop::Refuse(uint64_t key, const std::string& cause) {
  v1::JudgeAnswer answer;
  answer.set_cause(cause);
  Send(key, std::move(answer));
}

void JudgeLoop::Send(uint64_t key, v1::JudgeAnswer answer) {
  auto node = askings_.extract(key);
  const v1::JudgeRequest& request = node.mapped().request;
  answer.set_request_id(request.request_id());
  answer.set_token(request.token());
  ++(answer.available() ? counters_.answers : counters_.unavailable);
  MakeReadable(answer);
  outbox_.Reply(request.reply_to(), answer.SerializeAsString(), leases_.Take(key));
}

void JudgeLoop::GiveUpLate(Time now) {
  for (const uint64_t tag : lost_.TakeDue(now)) {
    const std::optional<Call> call = TakeRunning(tag);
    if (!call) continue;
    Endpoint& endpoint = endpoints_[call->judge];
    ++counters_.failed;
    endpoint.guard.Failed(now, Duration(0));
    v1::JudgeVote vote;
    vote.set_judge(endpoint.keys.name);
    vote.set_cause("no answer in time");
    TryAgain(*call, std::move(vote), now);
  }
  for (const uint64_t key : deadlines_.TakeDue(now)) {
    if (askings_.count(key) == 0) continue;
    Refuse(key, "judge " + askings_.at(key).request.judge() +
                    " did not give its votes within its patience");
  }
}

void JudgeLoop::Drain() {
  draining_ = true;
  leases_.ReleaseAll();
  askings_.clear();
  for (Endpoint& endpoint : endpoints_) {
    endpoint.waiting.clear();
    endpoint.same.clear();
  }
}

}  // namespace tidemill
