#include "tools/tool_loop.h"

#include <array>

#include "core/log.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr std::array kAgentTopics = {kToolsCompileTopic, kToolsTestsTopic, kToolsLintTopic,
                                     kToolsFilesTopic, kToolsCommandTopic};
constexpr size_t kCancellationsAtOnce = 64;

size_t At(ToolLane lane) {
  return static_cast<size_t>(lane);
}

}  // namespace

ToolLoop::ToolLoop(Bus& bus, ToolPort& port, const Clock& clock, ToolLoopOptions options)
    : bus_(bus),
      port_(port),
      clock_(clock),
      options_(std::move(options)),
      outbox_(bus),
      leases_(bus, options_.topics.lease / 3) {}

ToolLoop::~ToolLoop() {
  if (waker_ != nullptr) bus_.Unsubscribe(*waker_);
}

void ToolLoop::Attach(Waker& waker) {
  waker_ = &waker;
  std::vector<std::string_view> topics = {kToolsCancelTopic};
  if (options_.agent_tools) topics.insert(topics.end(), kAgentTopics.begin(), kAgentTopics.end());
  if (options_.gradings) topics.push_back(kToolsGradeTopic);
  for (const std::string_view topic : topics) {
    const Status opened = bus_.Open(topic, options_.topics);
    TM_CHECK(opened.ok(), opened.message());
    bus_.Subscribe(topic, waker);
  }
  port_.completions().Attach(waker);
}

Time ToolLoop::Step(Time now) {
  TakeCompletions();
  TakeCancellations();
  for (const uint64_t tag : leases_.Extend(now)) {
    // Another worker may have it now. The work goes on: its result serves the delivery that comes
    // back to us.
    LogInfo("a tool request's lease was lost", {{"request", running_[tag].request_id}});
  }
  const bool more = !draining_ && TakeRequests(now);
  outbox_.Flush();
  if (more) return now;
  // A full topic of the dead or a closed bus is looked at again; arrivals wake us.
  return outbox_.waiting() > 0 ? std::min(leases_.next(), now + milliseconds(20)) : leases_.next();
}

void ToolLoop::TakeCompletions() {
  for (ToolCompletion& completion : port_.completions().TakeAll()) {
    const auto found = running_.find(completion.tag);
    TM_CHECK(found != running_.end(), "the port answered what was not asked");
    Running running = std::move(found->second);
    running_.erase(found);
    running_by_id_.erase(running.request_id);
    --under_way_[At(running.lane)];
    std::string body = completion.result.SerializeAsString();
    // A failure of ours is not an answer to keep: the next delivery may do better.
    if (completion.result.outcome() != v1::OUTCOME_UNAVAILABLE) Remember(running.request_id, body);
    if (!leases_.Holds(completion.tag)) continue;  // lost: whoever holds it answers
    ++answered_;
    outbox_.Reply(running.reply_to, std::move(body), leases_.Take(completion.tag));
  }
}

void ToolLoop::TakeCancellations() {
  if (draining_) return;
  for (const Lease& lease : TakeFrom(bus_, kToolsCancelTopic, kCancellationsAtOnce)) {
    v1::ToolCancel cancel;
    if (!cancel.ParseFromString(lease.body)) {
      (void)bus_.Reject(lease, "not a ToolCancel");
      continue;
    }
    port_.Cancel(cancel.episode());
    (void)bus_.Ack(lease);
  }
}

bool ToolLoop::TakeRequests(Time now) {
  bool more = false;
  const auto take = [&](std::string_view topic, ToolLane lane) {
    const size_t capacity = port_.capacity(lane), used = under_way_[At(lane)];
    if (used >= capacity) return;
    std::vector<Lease> leases = TakeFrom(bus_, topic, capacity - used);
    more = more || leases.size() == capacity - used;
    for (Lease& lease : leases) Admit(std::move(lease), now);
  };
  if (options_.gradings) take(kToolsGradeTopic, ToolLane::kGrade);
  if (options_.agent_tools) {
    for (size_t i = 0; i < kAgentTopics.size(); ++i) {
      take(kAgentTopics[(first_topic_ + i) % kAgentTopics.size()], ToolLane::kAgent);
    }
    first_topic_ = (first_topic_ + 1) % kAgentTopics.size();
  }
  // Full lanes are no reason to come back at once: a completion wakes us.
  return more && (under_way_[0] < port_.capacity(ToolLane::kAgent) &&
                  under_way_[1] < port_.capacity(ToolLane::kGrade));
}

void ToolLoop::Admit(Lease lease, Time now) {
  v1::ToolRequest request;
  if (!request.ParseFromString(lease.body)) return (void)bus_.Reject(lease, "not a ToolRequest");
  if (request.request_id().empty() || request.reply_to().empty()) {
    return (void)bus_.Reject(lease, "a ToolRequest needs request_id and reply_to");
  }
  const auto finished = finished_by_id_.find(request.request_id());
  if (finished != finished_by_id_.end()) {
    ++answered_;
    outbox_.Reply(request.reply_to(), finished->second->body, std::move(lease));
    return;
  }
  const auto running = running_by_id_.find(request.request_id());
  if (running != running_by_id_.end()) {
    // The earlier lease ran out while we work on it; this one takes its place.
    if (leases_.Holds(running->second)) (void)leases_.Take(running->second);
    leases_.Hold(running->second, std::move(lease), now);
    return;
  }
  const ToolLane lane = LaneOf(request);
  if (under_way_[At(lane)] >= port_.capacity(lane)) {
    // A grading on another topic, say: it waits for its own slots.
    (void)bus_.Release(lease, milliseconds(50));
    return;
  }
  const uint64_t tag = next_tag_++;
  running_[tag] = {request.request_id(), request.reply_to(), lane};
  running_by_id_[request.request_id()] = tag;
  ++under_way_[At(lane)];
  leases_.Hold(tag, std::move(lease), now);
  port_.Submit(std::move(request), tag);
}

void ToolLoop::Remember(const std::string& request_id, std::string body) {
  if (body.size() > options_.finished_bytes_max / 4) return;
  finished_bytes_ += body.size();
  finished_.push_back({request_id, std::move(body)});
  finished_by_id_[request_id] = std::prev(finished_.end());
  while (finished_.size() > options_.finished_max ||
         finished_bytes_ > options_.finished_bytes_max) {
    finished_bytes_ -= finished_.front().body.size();
    finished_by_id_.erase(finished_.front().request_id);
    finished_.pop_front();
  }
}

}  // namespace tidemill
