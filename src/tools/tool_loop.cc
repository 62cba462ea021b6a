#include "tools/tool_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "bus/read_message.h"
#include "core/ids.h"
#include "core/random.h"
#include "core/topics.h"

namespace tidemill {
namespace {

// Where agents' requests come; gradings have a topic and slots of their own.
std::vector<std::string_view> AgentTopics() {
  std::vector<std::string_view> topics;
  for (const TopicRow& row : kTopics) {
    if (row.consumer == "tools" && row.name != kToolsGradeTopic) topics.push_back(row.name);
  }
  return topics;
}
const std::vector<std::string_view> kToolTopics = AgentTopics();

constexpr size_t kCancelsRemembered = 4096;
constexpr TopicOptions kCancelOptions{.capacity = kCancelsRemembered};
constexpr TopicOptions kBoxOptions{.capacity = 4096};

// Of the standard normal: one in a thousand is above.
constexpr double kTailDeviations = 3.09;

// What is asked (`hash`) belongs to it: an asker that forgot what it did, and does it again
// otherwise, may give the same name to another question.
std::string AskedKey(const v1::ToolRequest& request, const std::string& hash) {
  return request.request_id() + '\n' + request.token() + '\n' + hash;
}

// The part of a request that its answer needs; the rest may be large.
v1::ToolRequest WhoAsked(const v1::ToolRequest& request) {
  v1::ToolRequest asked;
  asked.set_request_id(request.request_id());
  asked.set_token(request.token());
  *asked.mutable_episode() = request.episode();
  asked.set_tool(request.tool());
  asked.set_reply_to(request.reply_to());
  asked.set_cancel_token(request.cancel_token());
  return asked;
}

void Remember(const std::string& key, std::unordered_set<std::string>& keys,
              std::deque<std::string>& order) {
  if (keys.insert(key).second) order.push_back(key);
  if (order.size() <= kCancelsRemembered) return;
  keys.erase(order.front());
  order.pop_front();
}

std::string CancelKey(const v1::TrajectoryId& episode, const std::string& token) {
  return TrajectoryKey::From(episode).ToString() + '\n' + token;
}

std::string OneOf(const std::string& episode, const std::string& request_id) {
  return episode + '\n' + request_id;
}
std::string OneOf(const std::string& episode, const v1::ToolRequest& request) {
  return OneOf(episode, request.request_id());
}

}  // namespace

Duration AddedWait::Of(std::string_view request_id) const {
  if (median <= Duration(0)) return Duration(0);
  Random random(StableHash(request_id));
  const double sigma = std::log(std::max(1.0, static_cast<double>(tail.count()) /
                                                  static_cast<double>(median.count()))) /
                       kTailDeviations;
  const double wait = static_cast<double>(median.count()) * std::exp(sigma * random.Normal());
  return std::min(Duration(static_cast<Duration::rep>(wait)), std::max(tail, median));
}

ToolLoop::ToolLoop(Bus& bus, ToolPort& port, ToolLoopOptions options)
    : bus_(bus),
      port_(port),
      options_(std::move(options)),
      cancels_(ToolCancelTopic(options_.worker)),
      boxes_(ToolBoxTopic(options_.worker)),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period),
      cache_(options_.cache) {}

void ToolLoop::Attach(Waker& waker) {
  for (std::string_view topic : kToolTopics) bus_.Subscribe(topic, waker);
  bus_.Subscribe(kToolsGradeTopic, waker);
  const Status opened = bus_.Open(cancels_, kCancelOptions);
  if (!opened.ok()) throw std::runtime_error("opening " + cancels_ + ": " + opened.ToString());
  bus_.Subscribe(cancels_, waker);
  const Status boxes = bus_.Open(boxes_, kBoxOptions);
  if (!boxes.ok()) throw std::runtime_error("opening " + boxes_ + ": " + boxes.ToString());
  bus_.Subscribe(boxes_, waker);
  port_.completions().Attach(waker);
}

Time ToolLoop::Step(Time now) {
  TakeDone();
  TakeCancels();
  // A lease that was lost: another worker has the request; ours goes on, and its answer is the
  // second.
  (void)leases_.Extend(now);
  if (!draining_) {
    TakeRequests(kToolsGradeTopic, true, now);
    for (size_t i = 0; i < kToolTopics.size(); ++i) {
      TakeRequests(kToolTopics[(next_topic_ + i) % kToolTopics.size()], false, now);
    }
    next_topic_ = (next_topic_ + 1) % kToolTopics.size();
    while (const size_t room = Free(false)) {
      std::vector<Lease> leases = TakeFromOwn(bus_, boxes_, kBoxOptions, room);
      for (Lease& lease : leases) Start(std::move(lease), false, now);
      if (leases.empty()) break;
    }
  }
  outbox_.Flush(now);
  counters_.running = running_.size();
  counters_.cache_hits = cache_.hits();
  counters_.cache_misses = cache_.misses() - counters_.joined;
  Time wake = std::min(now + milliseconds(100), leases_.next());
  if (outbox_.waiting() > 0) wake = std::min(wake, now + milliseconds(5));
  return wake;
}

size_t ToolLoop::Free(bool grading) const {
  const size_t used = grading ? running_gradings_ : running_.size() - running_gradings_;
  const size_t slots = port_.capacity(grading ? ToolLane::kGrade : ToolLane::kAgent);
  return slots - std::min(slots, used);
}

void ToolLoop::TakeRequests(std::string_view topic, bool grading, Time now) {
  // A request that is answered from memory takes no slot: go on until slots or messages run out.
  while (const size_t room = Free(grading)) {
    std::vector<Lease> leases = TakeFrom(bus_, topic, room);
    if (leases.empty()) return;
    for (Lease& lease : leases) Start(std::move(lease), grading, now);
  }
}

void ToolLoop::Start(Lease lease, bool grading, Time now) {
  v1::ToolRequest request;
  if (!ReadOrReject(bus_, lease, request, options_.limits)) return;
  if (const Duration wait = AddedWait{options_.wait, options_.wait_tail}.Of(request.request_id());
      !grading && lease.deliveries == 1 && wait > Duration(0)) {
    (void)bus_.Release(lease, wait);
    return;
  }
  ++(grading ? counters_.gradings : counters_.requests);
  if (request.background()) ++counters_.background;
  const std::string hash = ToolRequestHash(request);
  const std::string key = AskedKey(request, hash);
  if (auto it = running_ids_.find(key); it != running_ids_.end()) {
    // Asked again while we work on it: this message stands for the request from now on. The earlier
    // one is done with, whether its lease ran out (then this is the same message) or it was sent
    // twice.
    ++counters_.repeated;
    if (leases_.Holds(it->second)) (void)bus_.Ack(leases_.Take(it->second));
    leases_.Hold(it->second, std::move(lease), now);
    return;
  }
  Remember(CancelKey(request.episode(), request.cancel_token()), served_, served_order_);
  if (AnswerAtOnce(request, hash, lease) || JoinRunning(request, hash, lease, now)) return;
  running_gradings_ += grading ? 1 : 0;
  const uint64_t tag = next_tag_++;
  leases_.Hold(tag, std::move(lease), now);
  running_ids_[key] = tag;
  if (Shares(request)) running_hashes_[hash] = tag;
  running_.emplace(tag, Running{WhoAsked(request), hash, grading, {}});
  port_.Submit(std::move(request), tag);
}

// What a shell does depends on its history, and what a program outside does on anything.
bool ToolLoop::Shares(const v1::ToolRequest& request) const {
  return options_.cache > 0 && request.tool() != "bash" &&
         !options_.asked_tools.contains(request.tool());
}

bool ToolLoop::AnswerAtOnce(const v1::ToolRequest& request, const std::string& hash, Lease& lease) {
  if (auto it = finished_.find(AskedKey(request, hash)); it != finished_.end()) {
    ++counters_.repeated;
    outbox_.Reply(request.reply_to(), it->second, std::move(lease));
    return true;
  }
  const std::string episode = CancelKey(request.episode(), request.cancel_token());
  if (cancelled_.count(episode) != 0 || cancelled_.count(OneOf(episode, request)) != 0) {
    ++counters_.cancelled;
    v1::ToolResult result;
    result.set_outcome(v1::OUTCOME_UNAVAILABLE);
    result.set_cause("it was cancelled");
    Answer(request, hash, std::move(result), std::move(lease));
    return true;
  }
  std::optional<v1::ToolResult> known;
  if (Shares(request)) known = cache_.Find(hash);
  if (!known) return false;
  Answer(request, hash, std::move(*known), std::move(lease));
  return true;
}

// The members of a group often write the same answer at the same time: one box serves them all.
bool ToolLoop::JoinRunning(const v1::ToolRequest& request, const std::string& hash, Lease& lease,
                           Time now) {
  auto it = Shares(request) ? running_hashes_.find(hash) : running_hashes_.end();
  if (it == running_hashes_.end()) return false;
  ++counters_.joined;
  const uint64_t tag = next_tag_++;
  leases_.Hold(tag, std::move(lease), now);
  running_ids_[AskedKey(request, hash)] = tag;
  running_.at(it->second).followers.emplace_back(tag, WhoAsked(request));
  return true;
}

void ToolLoop::TakeDone() {
  for (ToolCompletion& done : port_.completions().TakeAll()) {
    auto node = running_.extract(done.tag);
    TM_CHECK(!node.empty(), "a tool answered that was not asked");
    Running& running = node.mapped();
    running_ids_.erase(AskedKey(running.asked, running.hash));
    running_gradings_ -= running.grading ? 1 : 0;
    v1::ToolResult& result = done.result;
    // The added wait is the tool's own time, not that of a queue.
    const Duration added =
        AddedWait{options_.wait, options_.wait_tail}.Of(running.asked.request_id());
    if (!running.grading)
      result.set_queue_ms(std::max(0.0, result.queue_ms() - Milliseconds(added)));
    ++counters_.completed;
    if (result.outcome() == v1::OUTCOME_UNAVAILABLE) ++counters_.unavailable;
    counters_.wall_us += static_cast<uint64_t>(result.wall_ms() * 1000);
    counters_.queue_us += static_cast<uint64_t>(std::max(0.0, result.queue_ms()) * 1000);
    if (Shares(running.asked)) {
      cache_.Store(running.hash, result);
      running_hashes_.erase(running.hash);
    }
    for (auto& [tag, asked] : running.followers) {
      running_ids_.erase(AskedKey(asked, running.hash));
      v1::ToolResult shared = result;
      shared.set_cached(true);
      Answer(asked, running.hash, std::move(shared),
             leases_.Holds(tag) ? leases_.Take(tag) : Lease());
    }
    // Without its lease the answer still goes out: the asker takes the first and ignores the
    // second.
    Lease lease = leases_.Holds(done.tag) ? leases_.Take(done.tag) : Lease();
    Answer(running.asked, running.hash, std::move(result), std::move(lease));
  }
}

void ToolLoop::Answer(const v1::ToolRequest& asked, const std::string& hash, v1::ToolResult result,
                      Lease lease) {
  result.set_request_id(asked.request_id());
  result.set_token(asked.token());
  *result.mutable_episode() = asked.episode();
  result.set_tool(asked.tool());
  result.set_worker(options_.worker);
  std::string bytes = result.SerializeAsString();
  if (options_.remember_results > 0 && result.outcome() != v1::OUTCOME_UNAVAILABLE) {
    std::string key = AskedKey(asked, hash);
    if (finished_.emplace(key, bytes).second) finished_order_.push_back(std::move(key));
    if (finished_order_.size() > options_.remember_results) {
      finished_.erase(finished_order_.front());
      finished_order_.pop_front();
    }
  }
  std::optional<Lease> then_ack;
  if (!lease.topic.empty()) then_ack = std::move(lease);
  outbox_.Reply(asked.reply_to(), std::move(bytes), std::move(then_ack));
}

void ToolLoop::TakeCancels() {
  for (Lease& lease : TakeFromOwn(bus_, cancels_, kCancelOptions, 64)) {
    v1::ToolCancel cancel;
    if (!ReadOrReject(bus_, lease, cancel, options_.limits)) continue;
    (void)bus_.Ack(lease);
    const std::string episode = CancelKey(cancel.episode(), cancel.token());
    if (cancel.request_ids().empty()) {
      if (served_.count(episode) != 0) port_.Cancel(cancel.episode());
      Remember(episode, cancelled_, cancelled_order_);
    }
    for (const std::string& id : cancel.request_ids()) CancelOne(episode, id);
  }
}

// Others that asked for the same work still want it.
void ToolLoop::CancelOne(const std::string& episode, const std::string& request_id) {
  Remember(OneOf(episode, request_id), cancelled_, cancelled_order_);
  for (const auto& [tag, running] : running_) {
    const v1::ToolRequest& asked = running.asked;
    if (asked.request_id() != request_id || !running.followers.empty()) continue;
    if (CancelKey(asked.episode(), asked.cancel_token()) != episode) continue;
    ++counters_.cancelled;
    port_.CancelOne(tag);
  }
}

}  // namespace tidemill
