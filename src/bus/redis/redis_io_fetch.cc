// The half of RedisIo that brings messages, and looks after topics.
#include <hiredis/hiredis.h>

#include <algorithm>
#include <utility>

#include "bus/redis/redis_io.h"
#include "bus/redis/redis_library.h"
#include "core/log.h"

namespace tidemill {
namespace {

constexpr size_t kFetchMax = 1000;
constexpr std::string_view kBlockMs = "250";
constexpr Duration kForgetEvery = std::chrono::seconds(60);
constexpr Duration kRefreshEvery = std::chrono::seconds(2);

}  // namespace

void RedisIo::SendReads() {
  SendFetches();
  SendTicks();
  RefreshTopics();
  BlockForMore();
}

void RedisIo::StopReads() {
  if (session_.reader->awaited() == 0 || unblock_sent_) return;
  unblock_sent_ = true;
  session_.command->Send({"CLIENT", "UNBLOCK", session_.reader_id}, [](const ReplyPtr&) {});
}

void RedisIo::SendTicks() {
  const Time now = Now();
  for (auto& [name, topic] : shared_.local.topics()) {
    const bool due = (topic.ours || topic.listeners > 0) && now >= topic.next_tick;
    if (!topic.open || topic.tick_sent || topic.opening > 0 || !(due || topic.tick_now)) continue;
    topic.tick_now = false;
    topic.tick_sent = true;
    // A little early or late, so that clients do not all look at the same moment.
    topic.next_tick =
        now + std::chrono::duration_cast<Duration>(options_.tick * (0.75 + random_.Uniform() / 2));
    const bool forget = now >= topic.next_forget;
    if (forget) topic.next_forget = now + kForgetEvery;
    const std::string quiet = std::to_string(
        std::max<int64_t>(1, std::chrono::duration_cast<milliseconds>(options_.tick / 2).count()));
    const Asked asked = {name, topic.generation, 0};
    session_.command->Send(
        {"FCALL", RedisFunctionName(RedisFunction::kTick), "1", keys_.Stream(name), keys_.prefix,
         client_, name, topic.cursor, quiet, forget ? "1" : "0"},
        [this, asked](ReplyPtr reply) { OnTick(asked, std::move(reply)); });
  }
}

void RedisIo::OnTick(const Asked& asked, ReplyPtr reply) {
  MutexLock lock(shared_.mutex);
  if (IsReplyError(*reply)) {
    const std::string text(ReplyText(*reply));
    if (IsFunctionMissing(text)) broken_ = Unavailable(text);
    if (text.starts_with("BUSY")) KillBusy();
    LogEvery(std::chrono::seconds(5), "redis-tick", LogLevel::kWarn,
             "maintaining a topic on redis failed", {{"topic", asked.topic}, {"error", text}});
  }
  ViewedTopic* topic = Current(asked);
  if (topic == nullptr) return;
  topic->tick_sent = false;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2) return;
  if (ReplyText(*reply->element[1]) != epoch_) {
    broken_ = Unavailable("redis: the server lost its data");
    return;
  }
  if (reply->element[0]->integer == 0) {
    if (topic->opening == 0) shared_.local.Gone(*topic);
    return;
  }
  if (reply->elements < 12) return;
  auto number = [&](size_t i) { return static_cast<int64_t>(reply->element[i]->integer); };
  topic->cursor = ReplyText(*reply->element[2]);
  if (topic->cursor != "0-0") topic->tick_now = true;
  const int64_t in_stream = number(3), leased = number(4), delayed = number(5);
  topic->size = in_stream + delayed;
  topic->owed = number(6);
  topic->heard = true;
  // Messages that wait here for Receive are leased to the server and ready to us.
  const int64_t waiting = std::min<int64_t>(leased, topic->fetched.size() + topic->loading);
  topic->depth.ready = std::max<int64_t>(0, in_stream - leased) + delayed + waiting;
  topic->depth.leased = leased - waiting;
  topic->depth.owed = topic->owed;
  topic->depth.dead = number(7);
  // Whoever wrote nonsense there must not make us forget what we knew.
  if (number(11) != 0) {
    const int64_t made = std::exchange(topic->made, number(11));
    if (made != 0 && made != topic->made) {
      LogWarn("the stream of a topic was deleted", {{"topic", asked.topic}});
      LostContent();
    }
  }
  if (!topic->ours) {
    topic->options.capacity = number(8);
    topic->options.lease = milliseconds(number(9));
    topic->options.max_deliveries = static_cast<uint32_t>(number(10));
  }
  if (topic->suspended) topic->suspended = topic->hungry = false;
  // Who asked for nothing hears of it nevertheless, and may ask.
  if (in_stream > leased && topic->listeners > 0 && topic->Wanted() == 0) WakeLater(asked.topic);
}

// Who waits for something to come of what was there sends it again.
void RedisIo::LostContent() {
  ++shared_.losses;
  for (const auto& [name, other] : shared_.local.topics()) {
    if (other.listeners > 0) WakeLater(name);
  }
}

// Nobody is answered while somebody's script runs on; where we may, we end it. One that has written
// cannot be ended so.
void RedisIo::KillBusy() {
  LogEvery(std::chrono::seconds(5), "redis-busy", LogLevel::kError,
           "redis is busy with a script that does not end; trying to end it",
           {{"server", address_.Name()}});
  for (const std::string_view kind : {"FUNCTION", "SCRIPT"}) {
    session_.command->Send({kind, "KILL"}, [](const ReplyPtr&) {});
  }
}

void RedisIo::RefreshTopics() {
  if (Now() < next_refresh_) return;
  next_refresh_ = Now() + kRefreshEvery;
  session_.command->Send(
      {RedisFunctionCommand(RedisFunction::kTopics), RedisFunctionName(RedisFunction::kTopics), "1",
       keys_.Topics(), keys_.prefix},
      [this](ReplyPtr reply) {
        if (reply->type != REDIS_REPLY_ARRAY) return;
        MutexLock lock(shared_.mutex);
        shared_.local.HeardAll(ParseRedisTopics(*reply));
      });
}

void RedisIo::SendFetches() {
  for (auto& [name, topic] : shared_.local.topics()) {
    const size_t wanted = std::min(topic.Wanted(), kFetchMax);
    if (wanted == 0 || topic.asked > 0 || topic.hungry || topic.suspended) continue;
    if (!topic.open || topic.opening > 0) continue;
    topic.asked = wanted;
    topic.received = true;
    const Asked asked = {name, topic.generation, wanted};
    session_.command->Send({"XREADGROUP", "GROUP", kRedisGroup, client_, "COUNT",
                            std::to_string(wanted), "STREAMS", keys_.Stream(name), ">"},
                           [this, asked](ReplyPtr reply) { OnFetch(asked, std::move(reply)); });
  }
}

void RedisIo::OnFetch(const Asked& asked, ReplyPtr reply) {
  {
    MutexLock lock(shared_.mutex);
    if (ViewedTopic* topic = Current(asked); topic != nullptr) {
      topic->asked = 0;
      topic->hungry = true;
    }
  }
  if (IsReplyError(*reply)) {
    Suspend(asked);
  } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
             reply->element[0]->elements == 2) {
    TakeEntries(asked, *reply->element[0]->element[1]);
  }
}

// The stream or its group is not there (any more): the next tick makes it again or learns that it
// was removed.
void RedisIo::Suspend(const Asked& asked) {
  MutexLock lock(shared_.mutex);
  ViewedTopic* topic = Current(asked);
  if (topic == nullptr) return;
  topic->suspended = true;
  topic->tick_now = true;
}

// Waits on the second connection for what the first did not find.
void RedisIo::BlockForMore() {
  std::vector<Asked> hungry;
  size_t count = kFetchMax;
  bool added = false;
  for (auto& [name, topic] : shared_.local.topics()) {
    if (!topic.open || !topic.hungry || topic.suspended || topic.opening > 0) continue;
    const size_t wanted = topic.Wanted();
    if (wanted == 0) continue;
    count = std::min(count, wanted);
    hungry.push_back({name, topic.generation, 0});
    const Asked& last = hungry.back();
    added = added || std::none_of(blocked_on_.begin(), blocked_on_.end(), [&](const Asked& one) {
              return one.topic == last.topic && one.generation == last.generation;
            });
  }
  if (hungry.empty()) return;
  if (session_.reader->awaited() > 0) {
    if (!added || unblock_sent_) return;
    unblock_sent_ = true;
    // A user without the right to this waits until the block ends by itself.
    session_.command->Send({"CLIENT", "UNBLOCK", session_.reader_id}, [](const ReplyPtr&) {});
    return;
  }
  const std::string count_text = std::to_string(count);
  std::vector<std::string> streams;
  for (Asked& one : hungry) {
    one.count = count;
    streams.push_back(keys_.Stream(one.topic));
  }
  std::vector<std::string_view> args = {"XREADGROUP", "GROUP", kRedisGroup, client_,  "COUNT",
                                        count_text,   "BLOCK", kBlockMs,    "STREAMS"};
  args.insert(args.end(), streams.begin(), streams.end());
  args.insert(args.end(), streams.size(), ">");
  blocked_on_ = std::move(hungry);
  session_.reader->Send(args, [this](ReplyPtr reply) { OnBlocked(std::move(reply)); });
}

void RedisIo::OnBlocked(ReplyPtr reply) {
  unblock_sent_ = false;
  const std::vector<Asked> asked = std::exchange(blocked_on_, {});
  if (IsReplyError(*reply)) {
    for (const Asked& one : asked) Suspend(one);
    return;
  }
  if (reply->type != REDIS_REPLY_ARRAY) return;  // nothing came
  for (size_t i = 0; i < reply->elements; ++i) {
    const redisReply& stream = *reply->element[i];
    if (stream.elements != 2) continue;
    for (const Asked& one : asked) {
      if (keys_.Stream(one.topic) == ReplyText(*stream.element[0])) {
        TakeEntries(one, *stream.element[1]);
      }
    }
  }
}

void RedisIo::TakeEntries(const Asked& asked, redisReply& reply) {
  std::vector<RedisEntry> entries = ParseRedisEntries(reply);
  std::vector<RedisEntry> elsewhere;
  {
    MutexLock lock(shared_.mutex);
    ViewedTopic* topic = Current(asked);
    if (topic == nullptr || !topic->open) return;
    if (shared_.closed) {
      for (RedisEntry& entry : entries) {
        shared_.local.GiveBack(*topic, std::move(entry.message.entry));
      }
      return;
    }
    // As many as asked for: there may be more, ask at once.
    topic->hungry = entries.size() < asked.count;
    const Time now = clock_.Now();
    for (RedisEntry& entry : entries) {
      entry.message.fetched = entry.message.renewed = now;
      if (!entry.message.body_ref.empty()) {
        ++topic->loading;
        elsewhere.push_back(std::move(entry));
        continue;
      }
      if (entry.dead_letter) entry.WrapDeadLetter();
      topic->fetched.push_back(std::move(entry.message));
    }
    if (!topic->fetched.empty()) WakeLater(asked.topic);
  }
  for (RedisEntry& entry : elsewhere) LoadBody(asked, std::move(entry));
}

void RedisIo::LoadBody(const Asked& asked, RedisEntry entry) {
  const std::string& ref = entry.message.body_ref;
  if (ref.starts_with(kBlobRef)) {
    Result<std::string> body = Unavailable("this worker has no blob store");
    if (options_.blobs != nullptr) body = options_.blobs->Get(ref.substr(kBlobRef.size()));
    OnBody(asked, std::move(entry), std::move(body));
    return;
  }
  if (!ref.starts_with(keys_.prefix + "body:")) {
    OnBody(asked, std::move(entry), NotFound("its body is not under a key for bodies"));
    return;
  }
  const std::string key = ref;
  session_.command->Send({"GET", key},
                         [this, asked, entry = std::move(entry)](ReplyPtr reply) mutable {
                           Result<std::string> body = NotFound("its body expired");
                           if (reply->type == REDIS_REPLY_STRING)
                             body = std::string(reply->str, reply->len);
                           if (IsReplyError(*reply))
                             body = Unavailable(std::string(ReplyText(*reply)));
                           OnBody(asked, std::move(entry), std::move(body));
                         });
}

void RedisIo::OnBody(const Asked& asked, RedisEntry entry, Result<std::string> body) {
  MutexLock lock(shared_.mutex);
  ViewedTopic* topic = Current(asked);
  if (topic == nullptr || !topic->open) return;
  --topic->loading;
  const bool gone =
      body.status().code() == Code::kNotFound || body.status().code() == Code::kCorrupt;
  if (body.ok()) {
    entry.message.body = std::move(*body);
  } else if (entry.dead_letter && gone) {
    // What is known of the death is worth more than nothing.
    entry.dead_reason += " (" + body.status().message() + ")";
  } else {
    LogWarn("a large message has no body", {{"topic", asked.topic},
                                            {"reference", entry.message.body_ref},
                                            {"error", body.status().message()}});
    shared_.local.EndUnread(*topic, std::move(entry.message.entry), body.status().message(), gone);
    return;
  }
  if (entry.dead_letter) entry.WrapDeadLetter();
  topic->fetched.push_back(std::move(entry.message));
  WakeLater(asked.topic);
}

}  // namespace tidemill
