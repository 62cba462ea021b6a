// The half of RedisIo that carries calls to the server.
#include <hiredis/hiredis.h>

#include <algorithm>
#include <set>
#include <utility>

#include "bus/redis/redis_io.h"
#include "bus/redis/redis_library.h"
#include "core/log.h"

namespace tidemill {
namespace {

constexpr size_t kBatchCalls = 128;
constexpr size_t kBatchBytes = 1 << 20;
constexpr size_t kWindow = 3;  // batches in flight
constexpr std::string_view kKeepClientSeconds = "86400";
constexpr Duration kRetryMin = milliseconds(2);
constexpr Duration kRetryMax = milliseconds(50);
constexpr Duration kErrorRetry = milliseconds(200);

void AppendCall(const BusCall& call, std::vector<std::string_view>& args) {
  const bool in_stream = call.body_ref.empty();
  const std::string_view body = in_stream ? std::string_view(call.body) : std::string_view();
  const std::string_view force = call.force ? "1" : "";
  args.emplace_back(&call.letter, 1);
  args.push_back(call.topic);
  switch (call.letter) {
    case 'p':
      args.insert(args.end(), {body, call.body_ref, force});
      break;
    case 'q':
      args.insert(args.end(), {call.a, body, call.body_ref, force});
      break;
    case 'r':
      args.insert(args.end(), {body, call.body_ref});
      break;
    case 'f':
      args.push_back(call.b);
      break;
    case 'a':
      args.push_back(call.a);
      args.push_back(call.body_ref.starts_with(kBlobRef) ? "" : std::string_view(call.body_ref));
      break;
    case 'b':
    case 'x':
      args.insert(args.end(), {call.a, call.b});
      break;
    case 'o':
    case 'O':
    case 'u':
      args.push_back(call.a);
      break;
    default:
      break;  // 'd', 'l': the topic is all
  }
}

}  // namespace

void RedisIo::SendBatches() {
  while (in_flight_.size() < kWindow && !rewinding_ && Now() >= retry_at_) {
    Batch batch;
    {
      MutexLock lock(shared_.mutex);
      batch.calls = shared_.local.TakeCalls(kBatchCalls, kBatchBytes);
    }
    if (batch.calls.empty()) return;
    if (!StoreBodies(batch)) {
      MutexLock lock(shared_.mutex);
      shared_.local.PutBack(std::move(batch.calls));
      retry_at_ = Now() + kErrorRetry;
      return;
    }
    batch.seq = next_seq_++;
    in_flight_.push_back(std::move(batch));
    SendBatch(in_flight_.back(), expected_);
    expected_ = std::to_string(in_flight_.back().seq) + ":" +
                std::to_string(in_flight_.back().calls.size());
  }
}

// Gives every large body its place outside the stream. False: the blob store failed; try again.
bool RedisIo::StoreBodies(Batch& batch) {
  for (BusCall& call : batch.calls) {
    if (!call.publishes() || call.body.size() <= options_.inline_max || !call.body_ref.empty()) {
      continue;
    }
    if (options_.blobs == nullptr) {
      call.body_ref = keys_.Body(client_, next_body_++);
      continue;
    }
    auto hash = options_.blobs->Put(call.body);
    if (!hash.ok()) {
      LogEvery(std::chrono::seconds(5), "redis-blob", LogLevel::kError,
               "cannot store a large message; the outbox waits",
               {{"topic", call.topic}, {"error", hash.status().message()}});
      return false;
    }
    call.body_ref = std::string(kBlobRef) + *hash;
  }
  return true;
}

void RedisIo::SendBatch(const Batch& batch, std::string_view prev) {
  const std::string seq = std::to_string(batch.seq);
  const std::string client_key = keys_.Client(client_);
  const std::string ttl = std::to_string(
      std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options_.body_ttl).count()));
  const RedisFunction function = making_room_ ? RedisFunction::kRoom : RedisFunction::kBatch;
  std::vector<std::string_view> args = {
      "FCALL", RedisFunctionName(function), "1", client_key, keys_.prefix, client_, prev,
      seq,     kKeepClientSeconds};
  args.reserve(args.size() + 6 * batch.calls.size());
  for (const BusCall& call : batch.calls) {
    // Before the batch on the same connection, so the body is there when the entry is.
    if (call.publishes() && !call.body_ref.empty() && !call.body_ref.starts_with(kBlobRef)) {
      session_.command->Send({"SET", call.body_ref, call.body, "EX", ttl}, [this](ReplyPtr reply) {
        if (IsReplyError(*reply)) broken_ = Unavailable(std::string(ReplyText(*reply)));
      });
    }
    AppendCall(call, args);
  }
  session_.command->Send(args, [this](ReplyPtr reply) { OnBatch(std::move(reply)); });
}

void RedisIo::OnBatch(ReplyPtr reply) {
  Batch batch = std::move(in_flight_.front());
  in_flight_.pop_front();
  int64_t done = 0;
  std::string_view why = ReplyText(*reply), epoch = epoch_, where;
  MutexLock lock(shared_.mutex);
  if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 6) {
    done = reply->element[0]->integer;
    why = ReplyText(*reply->element[1]);
    epoch = ReplyText(*reply->element[4]);
    where = ReplyText(*reply->element[5]);
    NoteBatch(*reply, batch);
  }
  const size_t count = batch.calls.size();
  const size_t finished = done < 0 ? count : std::min<size_t>(done, count);
  for (size_t i = 0; i < finished; ++i) shared_.local.Done(batch.calls[i]);
  if (finished > 0) {
    full_since_ = {};
    retry_delay_ = {};
  }
  const bool first_stop = finished < count && !rewinding_;
  for (size_t i = finished; i < count; ++i) put_back_.push_back(std::move(batch.calls[i]));
  if (first_stop) {
    rewinding_ = true;
    StopAt(why, epoch, where);
  }
  if (rewinding_ && in_flight_.empty()) {
    shared_.local.PutBack(std::exchange(put_back_, {}));
    rewinding_ = false;
    expected_ = "*";
  }
}

// What the server said about single calls, and the sizes of the topics it touched.
void RedisIo::NoteBatch(const redisReply& reply, const Batch& batch) {
  const redisReply& notes = *reply.element[2];
  for (size_t i = 0; i + 1 < notes.elements; i += 2) {
    const size_t index = static_cast<size_t>(notes.element[i]->integer);
    if (index >= batch.calls.size()) continue;
    if (ReplyText(*notes.element[i + 1]) == "lost") {
      ++shared_.stats.lost;
    } else {
      ++shared_.stats.dropped;
      shared_.local.InboxGone(batch.calls[index].topic);
    }
  }
  const redisReply& sizes = *reply.element[3];
  for (size_t i = 0; i + 2 < sizes.elements; i += 3) {
    ViewedTopic* topic = shared_.local.Find(ReplyText(*sizes.element[i]));
    if (topic == nullptr || !topic->open) continue;
    topic->size = sizes.element[i + 1]->integer;
    topic->owed = sizes.element[i + 2]->integer;
  }
}

// The first of put_back_ was not done.
void RedisIo::StopAt(std::string_view why, std::string_view epoch, std::string_view where) {
  if (why == "full") {
    Refused(where);
    return;
  }
  if (why == "notopic") {
    if (epoch != epoch_) {
      broken_ = Unavailable("redis: the server lost its data");
      return;
    }
    // Somebody removed it on purpose, and what was meant for it goes with it.
    ++shared_.stats.dropped;
    ViewedTopic* topic = shared_.local.Find(where);
    if (topic != nullptr && topic->open && topic->opening == 0) shared_.local.Gone(*topic);
    shared_.local.Done(put_back_.front());
    put_back_.erase(put_back_.begin());
    return;
  }
  if (why == "gap" || why == "again") return;  // sent again under a new number
  if (IsFunctionMissing(why)) {
    broken_ = Unavailable(std::string(why));
    return;
  }
  if (why.starts_with("OOM")) {
    // Calls that end leases make room: they go first, then publishing is tried again.
    making_room_ = !making_room_;
    ++shared_.stats.no_memory;
    if (making_room_) return;
  }
  if (why.starts_with("BUSY")) KillBusy();
  retry_at_ = Now() + kErrorRetry;
  LogEvery(std::chrono::seconds(5), "redis-batch", LogLevel::kError,
           "redis refuses calls; retrying", {{"error", why}});
}

// The topic was fuller than our view of it. Tried again in order until it fits. But calls behind it
// may be what others wait for, so that they can make the room: after a while it goes above capacity
// then.
void RedisIo::Refused(std::string_view topic) {
  const Time now = Now();
  ++shared_.stats.refused;
  if (full_since_ == Time{}) full_since_ = now;
  auto elsewhere = [&](const BusCall& call) { return call.letter != 'p' || call.topic != topic; };
  const auto end = std::find_if(put_back_.begin() + 1, put_back_.end(), elsewhere);
  if (now - full_since_ > options_.full_patience &&
      (end != put_back_.end() || shared_.local.AnyWaiting(elsewhere))) {
    for (auto call = put_back_.begin(); call != end; ++call) call->force = true;
    shared_.stats.forced += end - put_back_.begin();
    LogEvery(std::chrono::seconds(5), "redis-full", LogLevel::kWarn,
             "a topic stayed full; publishing above its capacity", {{"topic", topic}});
    return;
  }
  retry_delay_ = std::clamp(retry_delay_ * 2, kRetryMin, kRetryMax);
  retry_at_ = now + retry_delay_;
}

// Past the outbox: a lease must not run out because the calls before its renewal have to wait.
void RedisIo::SendRenewals() {
  for (auto& [name, renewals] : std::exchange(shared_.local.extends(), {})) {
    const std::string stream = keys_.Stream(name);
    for (size_t at = 0; at < renewals.size(); at += kBatchCalls) {
      const size_t end = std::min(renewals.size(), at + kBatchCalls);
      std::vector<ClientView::Renewal> some(renewals.begin() + at, renewals.begin() + end);
      std::vector<std::string_view> args = {"XCLAIM", stream, kRedisGroup, client_, "0"};
      for (const ClientView::Renewal& renewal : some) args.push_back(renewal.entry);
      args.emplace_back("JUSTID");
      auto& sent = renewals_sent_[name];
      sent.insert(sent.end(), some.begin(), some.end());
      shared_.renewals_under_way += some.size();
      session_.command->Send(args, [this, name = name, some](ReplyPtr reply) {
        OnRenewals(name, some, std::move(reply));
      });
    }
  }
}

void RedisIo::OnRenewals(const std::string& topic, const std::vector<ClientView::Renewal>& renewals,
                         ReplyPtr reply) {
  MutexLock lock(shared_.mutex);
  shared_.renewals_under_way -= renewals.size();
  auto& sent = renewals_sent_[topic];
  sent.erase(sent.begin(), sent.begin() + renewals.size());
  if (sent.empty()) renewals_sent_.erase(topic);
  std::set<std::string_view> kept;
  for (size_t i = 0; i < reply->elements; ++i) kept.insert(ReplyText(*reply->element[i]));
  for (const ClientView::Renewal& renewal : renewals) {
    if (renewal.token != 0 && kept.count(renewal.entry) == 0) shared_.local.Lost(renewal.token);
  }
}

}  // namespace tidemill
