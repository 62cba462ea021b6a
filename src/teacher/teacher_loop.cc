#include "teacher/teacher_loop.h"

#include <algorithm>
#include <cmath>

#include "bus/read_message.h"
#include "core/metrics.h"
#include "core/text.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr size_t kTaughtAtOnce = 64;
constexpr float kLeastLogprob = -50;  // what messages may hold

// Spans lie within their sequence, and a sequence has a turn once. Sequences with other hints may
// have it again.
Status CheckSpans(const v1::TeacherRequest& request) {
  for (const v1::TaughtSequence& sequence : request.sequences()) {
    std::vector<uint32_t> turns;
    uint64_t end = 1;
    for (const v1::TaughtSpan& span : sequence.spans()) {
      const uint64_t after = uint64_t{span.begin()} + span.tokens();
      if (span.begin() < end || after > static_cast<uint64_t>(sequence.ids_size())) {
        return Invalid("TeacherRequest.sequences: a span from " + std::to_string(span.begin()) +
                       " to " + std::to_string(after) + " of " +
                       std::to_string(sequence.ids_size()) + " ids");
      }
      end = after;
      turns.push_back(span.turn());
    }
    std::sort(turns.begin(), turns.end());
    if (std::adjacent_find(turns.begin(), turns.end()) != turns.end())
      return Invalid("TeacherRequest.sequences: a turn is in two spans of one sequence");
  }
  return Ok();
}

}  // namespace

TeacherLoop::TeacherLoop(Bus& bus, TeacherPort& port, TeacherOptions options)
    : bus_(bus),
      port_(port),
      options_(std::move(options)),
      outbox_(bus, options_.lease_period),
      leases_(bus, options_.lease_period) {}

void TeacherLoop::Attach(Waker& waker) {
  bus_.Subscribe(kTeacherTopic, waker);
  port_.events().Attach(waker);
}

Time TeacherLoop::Step(Time now) {
  TakeDone(now);
  for (const Call& call : later_.TakeDue(now)) waiting_.push_back(call);
  for (const uint64_t key : leases_.Extend(now)) askings_.erase(key);  // it comes again
  if (!draining_) TakeRequests(now);
  StartCalls();
  outbox_.Flush(now);
  counters_.waiting = askings_.size();
  const Duration period = outbox_.waiting() > 0 ? milliseconds(5) : milliseconds(500);
  return std::min({now + period, leases_.next(), later_.next()});
}

void TeacherLoop::TakeRequests(Time now) {
  const size_t room =
      options_.max_outstanding - std::min<size_t>(options_.max_outstanding, askings_.size());
  for (Lease& lease : TakeFrom(bus_, kTeacherTopic, std::min(room, kTaughtAtOnce))) {
    v1::TeacherRequest request;
    if (!ReadOrReject(bus_, lease, request, options_.limits)) continue;
    if (const Status right = CheckSpans(request); !right.ok()) {
      (void)bus_.Reject(lease, right.message());
      continue;
    }
    const uint64_t key = next_key_++;
    Asking& asking = askings_[key];
    asking.request = std::move(request);
    asking.answer.set_available(true);
    asking.open = asking.request.sequences_size();
    leases_.Hold(key, std::move(lease), now);
    for (int i = 0; i < asking.open; ++i) waiting_.push_back({key, i});
    if (asking.open == 0) Send(key);
  }
}

void TeacherLoop::StartCalls() {
  while (!waiting_.empty() && running_.size() < options_.concurrency) {
    const Call call = waiting_.front();
    waiting_.pop_front();
    const auto asking = askings_.find(call.asking);
    if (asking == askings_.end()) continue;  // answered, or another's
    const v1::TaughtSequence& sequence = asking->second.request.sequences(call.sequence);
    TeacherCall to;
    to.tag = next_tag_++;
    to.ids.assign(sequence.ids().begin(), sequence.ids().end());
    for (const v1::TaughtSpan& span : sequence.spans())
      to.spans.push_back({span.begin(), span.tokens()});
    to.temperature = asking->second.request.temperature();
    running_.emplace(to.tag, call);
    port_.Submit(std::move(to));
  }
}

void TeacherLoop::TakeDone(Time now) {
  for (TeacherDone& done : port_.events().TakeAll()) {
    auto call = running_.extract(done.tag);
    TM_CHECK(!call.empty(), "the teacher answered for something it was not asked");
    OnDone(call.mapped(), std::move(done), now);
  }
}

void TeacherLoop::OnDone(const Call& call, TeacherDone done, Time now) {
  if (options_.metrics != nullptr) {
    options_.metrics->Histogram("tidemill_teacher_seconds", "Time of one answer of the teacher")
        .Observe(Seconds(done.took));
  }
  const auto found = askings_.find(call.asking);
  if (found == askings_.end()) return;
  Asking& asking = found->second;
  if (done.status.ok()) {
    ++counters_.sequences;
    AddScores(asking, asking.request.sequences(call.sequence), done.scores);
    if (--asking.open == 0) Send(call.asking);
    return;
  }
  ++counters_.failed;
  if (done.status.code() != Code::kInvalid && call.tries < options_.retries) {
    ++counters_.retries;
    later_.Put(now + BackOff(options_.retry_delay, call.tries),
               {call.asking, call.sequence, call.tries + 1});
    return;
  }
  asking.answer.Clear();
  asking.answer.set_cause(done.status.message());
  Send(call.asking);
}

void TeacherLoop::AddScores(Asking& asking, const v1::TaughtSequence& sequence,
                            const TokenLogprobsOf& scores) {
  size_t at = 0;
  for (const v1::TaughtSpan& span : sequence.spans()) {
    v1::TurnScores& turn = *asking.answer.add_turns();
    turn.set_turn(span.turn());
    for (uint32_t i = 0; i < span.tokens(); ++i, ++at) {
      const bool known = scores.known.at(at) != 0 && std::isfinite(scores.logprobs.at(at));
      turn.add_logprobs(known ? std::clamp(scores.logprobs[at], kLeastLogprob, 0.0f) : 0.0f);
      if (!known) turn.add_unknown(i);
      ++(known ? counters_.tokens : counters_.unknown);
    }
  }
}

void TeacherLoop::Send(uint64_t key) {
  auto node = askings_.extract(key);
  const v1::TeacherRequest& request = node.mapped().request;
  v1::TeacherAnswer& answer = node.mapped().answer;
  answer.set_request_id(request.request_id());
  answer.set_token(request.token());
  ++(answer.available() ? counters_.answers : counters_.unavailable);
  MakeReadable(answer);
  outbox_.Reply(request.reply_to(), answer.SerializeAsString(), leases_.Take(key));
}

void TeacherLoop::Drain() {
  draining_ = true;
  leases_.ReleaseAll();
  askings_.clear();
  waiting_.clear();
}

}  // namespace tidemill
