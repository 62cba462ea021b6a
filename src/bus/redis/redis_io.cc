#include "bus/redis/redis_io.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <set>
#include <utility>

#include "core/log.h"

namespace tidemill {
namespace {

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// Unique, also among runs of one program under one name: the sequence key of an earlier one must
// not be taken for ours.
std::string ClientName(const std::string& name, uint64_t random) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string unique = name.empty() ? "client" : name;
  unique += '-';
  for (int i = 0; i < 16; ++i) unique += kDigits[(random >> (4 * i)) & 15];
  return unique;
}

}  // namespace

RedisIo::RedisIo(const RedisBusOptions& options, RedisAddress address, const Clock& clock,
                 BrokerShared& shared, std::function<void(const std::string&)> wake)
    : options_(options),
      address_(std::move(address)),
      clock_(clock),
      shared_(shared),
      wake_(std::move(wake)),
      keys_(options.run),
      random_(RandomSeed()),
      client_(ClientName(options.client, random_.Next())),
      event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  TM_CHECK(event_fd_ >= 0, std::strerror(errno));
}

RedisIo::~RedisIo() {
  Signal();
  if (thread_.joinable()) thread_.join();
  close(event_fd_);
}

Status RedisIo::Start() {
  auto session = OpenRedisSession(address_, keys_, client_, options_.connect_timeout);
  if (!session.ok()) return session.status();
  Adopt(std::move(*session));
  thread_ = std::thread([this] { Run(); });
  return Ok();
}

void RedisIo::Signal() {
  if (signaled_.exchange(true)) return;
  const uint64_t one = 1;
  // Full means that it was signalled often enough already.
  if (write(event_fd_, &one, sizeof one) < 0) return;
}

void RedisIo::Run() {
  while (!Finished()) {
    if (session_.command == nullptr) {
      if (Now() >= reconnect_at_) TryConnect();
      if (session_.command == nullptr) Wait();
      continue;
    }
    Exchange();
    Deliver();
  }
  if (session_.command != nullptr) {
    // It would go by itself in a day.
    (void)session_.command->Call({"UNLINK", keys_.Client(client_)}, std::chrono::seconds(1));
  }
}

bool RedisIo::Finished() {
  MutexLock lock(shared_.mutex);
  if (!shared_.closed) return false;
  if (Now() - shared_.closed_at > options_.close_patience) return true;
  // Answers on their way may hold messages, and those go back.
  const bool quiet = session_.command != nullptr && session_.command->awaited() == 0 &&
                     session_.reader->awaited() == 0;
  return quiet && shared_.Settled();
}

void RedisIo::TryConnect() {
  auto session = OpenRedisSession(address_, keys_, client_, options_.connect_timeout);
  if (session.ok()) {
    failures_ = 0;
    {
      MutexLock lock(shared_.mutex);
      ++shared_.stats.reconnects;
    }
    LogInfo("reconnected to redis", {{"server", address_.Name()}});
    Adopt(std::move(*session));
    return;
  }
  // Doubled each time, and anywhere in the upper half, so that many workers do not come at once.
  const double longest = Seconds(options_.reconnect_max);
  const double wait =
      std::min(longest, Seconds(options_.reconnect_min) * static_cast<double>(1ull << failures_));
  failures_ = std::min(failures_ + 1, 20);
  reconnect_at_ = Now() + std::chrono::duration_cast<Duration>(
                              std::chrono::duration<double>(wait * (0.5 + random_.Uniform() / 2)));
  LogEvery(std::chrono::seconds(5), "redis-connect", LogLevel::kWarn, "redis does not answer",
           {{"server", address_.Name()}, {"error", session.status().message()}});
}

// Takes up a new connection: what was under way when the last one was lost is sent again.
void RedisIo::Adopt(RedisSession session) {
  session_ = std::move(session);
  const bool first = epoch_.empty();
  const bool data_lost = !first && epoch_ != session_.epoch;
  epoch_ = session_.epoch;
  broken_ = Ok();
  {
    MutexLock lock(shared_.mutex);
    shared_.local.HeardAll(session_.topics);
    if (data_lost || rewinding_) {
      // Batches behind one that was not done were not done either.
      for (Batch& batch : in_flight_) {
        for (BusCall& call : batch.calls) put_back_.push_back(std::move(call));
      }
      in_flight_.clear();
      shared_.local.PutBack(std::exchange(put_back_, {}));
      rewinding_ = false;
      expected_ = "*";
    }
    if (data_lost) {
      shared_.local.OpenAgain();
      LostContent();
    }
  }
  if (data_lost) LogWarn("redis lost its data; creating the topics again", {{"run", options_.run}});
  std::string prev = "*";
  for (const Batch& batch : in_flight_) {
    SendBatch(batch, prev);
    prev = std::to_string(batch.seq) + ":" + std::to_string(batch.calls.size());
  }
  if (!in_flight_.empty()) expected_ = prev;
  if (!first && !data_lost) RecoverPending();
}

// Entries the server delivered to us in replies that never came: given back, uncounted.
void RedisIo::RecoverPending() {
  MutexLock lock(shared_.mutex);
  for (const auto& [name, topic] : shared_.local.topics()) {
    if (!topic.open || !topic.received) continue;
    const Asked asked = {name, topic.generation, 0};
    session_.command->Send(
        {"XPENDING", keys_.Stream(name), kRedisGroup, "-", "+", "10000", client_},
        [this, asked](ReplyPtr reply) {
          MutexLock inner(shared_.mutex);
          ViewedTopic* current = Current(asked);
          if (current == nullptr || reply->type != REDIS_REPLY_ARRAY) return;
          std::set<std::string> known = shared_.local.Entries(asked.topic);
          for (const Batch& batch : in_flight_) {
            for (const BusCall& call : batch.calls) known.insert(call.a);
          }
          for (size_t i = 0; i < reply->elements; ++i) {
            if (reply->element[i]->elements < 1) continue;
            std::string entry(ReplyText(*reply->element[i]->element[0]));
            if (known.count(entry) == 0) shared_.local.GiveBack(*current, std::move(entry));
          }
        });
  }
}

void RedisIo::Disconnect(const Status& why) {
  LogWarn("lost the connection to redis", {{"server", address_.Name()}, {"error", why.message()}});
  session_.command.reset();
  session_.reader.reset();
  blocked_on_.clear();
  unblock_sent_ = false;
  reconnect_at_ =
      Now() + std::chrono::duration_cast<Duration>(options_.reconnect_min * random_.Uniform());
  MutexLock lock(shared_.mutex);
  for (auto& [name, renewals] : std::exchange(renewals_sent_, {})) {
    shared_.renewals_under_way -= renewals.size();
    auto& again = shared_.local.extends()[name];
    again.insert(again.end(), renewals.begin(), renewals.end());
  }
  for (auto& [name, topic] : shared_.local.topics()) {
    topic.asked = 0;
    topic.loading = 0;
    topic.hungry = false;
    topic.suspended = false;
    topic.tick_sent = false;
    topic.tick_now = true;
    topic.cursor = "0-0";
  }
}

ViewedTopic* RedisIo::Current(const Asked& asked) {
  ViewedTopic* topic = shared_.local.Find(asked.topic);
  return topic != nullptr && topic->generation == asked.generation ? topic : nullptr;
}

void RedisIo::Exchange() {
  {
    MutexLock lock(shared_.mutex);
    const Time now = Now();
    if (now >= next_tend_) {
      next_tend_ = now + options_.tick / 2;
      shared_.local.TendLeases(options_.linger);
      for (Batch& batch : in_flight_) {
        for (BusCall& call : batch.calls) shared_.local.RenewEnding(call, clock_.Now());
      }
      for (BusCall& call : put_back_) shared_.local.RenewEnding(call, clock_.Now());
    }
    SendRenewals();
    if (shared_.closed) {
      StopReads();
    } else {
      SendReads();
    }
  }
  SendBatches();
  Status status = session_.command->Write();
  if (status.ok()) status = session_.reader->Write();
  if (status.ok()) Wait();
  if (status.ok()) status = session_.command->Read();
  if (status.ok()) status = session_.reader->Read();
  if (status.ok()) status = broken_;
  for (RedisConnection* connection : {session_.command.get(), session_.reader.get()}) {
    if (connection->awaited() > 0 &&
        Now() - connection->waiting_since() > options_.answer_timeout && status.ok()) {
      status = Unavailable("redis: no answer");
    }
  }
  if (!status.ok()) Disconnect(status);
}

// Until something arrives, is asked for or falls due.
void RedisIo::Wait() {
  const Time until = session_.command == nullptr ? reconnect_at_ : NextTimer();
  const auto left = std::chrono::ceil<milliseconds>(until - Now()).count();
  const int timeout_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 1000));
  std::array<pollfd, 3> fds{};
  size_t count = 0;
  fds[count++] = {.fd = event_fd_, .events = POLLIN, .revents = 0};
  if (session_.command != nullptr) {
    for (RedisConnection* connection : {session_.command.get(), session_.reader.get()}) {
      short events = POLLIN;
      if (connection->wants_write()) events |= POLLOUT;
      fds[count++] = {.fd = connection->fd(), .events = events, .revents = 0};
    }
  }
  (void)poll(fds.data(), count, timeout_ms);  // interrupted is as good as woken
  if (fds[0].revents != 0) {
    uint64_t signals = 0;
    if (read(event_fd_, &signals, sizeof signals) < 0 && errno != EAGAIN) {
      LogError("waking the redis thread failed", {{"error", std::strerror(errno)}});
    }
    signaled_ = false;
  }
}

Time RedisIo::NextTimer() {
  MutexLock lock(shared_.mutex);
  Time next = std::min(next_tend_, Now() + options_.tick);
  if (shared_.local.waiting() > 0 && retry_at_ > Now()) next = std::min(next, retry_at_);
  return next;
}

void RedisIo::Deliver() {
  std::vector<std::string> topics = std::exchange(wake_later_, {});
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  for (const std::string& topic : topics) wake_(topic);
  MutexLock lock(shared_.mutex);
  if (shared_.Settled()) shared_.settled.NotifyAll();
}

}  // namespace tidemill
