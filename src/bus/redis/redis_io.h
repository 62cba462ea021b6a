// The I/O thread of a RedisBus: carries calls to the server in their order, fetches what is in
// demand, looks after topics and leases, and connects again when the connection is lost.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bus/redis/redis_bus.h"
#include "bus/redis/redis_entry.h"
#include "bus/redis/redis_session.h"
#include "core/random.h"

namespace tidemill {

class RedisIo final : public BrokerCarrier {
 public:
  RedisIo(const RedisBusOptions& options, RedisAddress address, const Clock& clock,
          BrokerShared& shared, std::function<void(const std::string&)> wake);
  // Ends the thread: after Close(), once all is sent or close_patience is over.
  ~RedisIo() override;

  // Connects and starts the thread.
  Status Start();
  // There may be something to do. Any thread.
  void Signal() override;

 private:
  // Calls sent together.
  struct Batch {
    uint64_t seq = 0;
    std::vector<BusCall> calls;
  };
  // A topic something was asked of, as it was then.
  struct Asked {
    std::string topic;
    uint64_t generation = 0;
    size_t count = 0;
  };

  // redis_io.cc: the thread, and connecting.
  void Run();
  bool Finished();
  void Adopt(RedisSession session);
  void RecoverPending();
  void TryConnect();
  void Disconnect(const Status& why);
  void Exchange();  // one round: send, wait, read
  void Wait();
  Time NextTimer();
  void Deliver();  // wakes, and tells who waits for all to be settled
  void WakeLater(const std::string& topic) { wake_later_.push_back(topic); }
  ViewedTopic* Current(const Asked& asked)
      TM_REQUIRES(shared_.mutex);  // null: removed or made again since
  static Time Now() { return std::chrono::steady_clock::now(); }

  // redis_io_send.cc: calls and renewals.
  void SendBatches();
  bool StoreBodies(Batch& batch);
  void SendBatch(const Batch& batch, std::string_view prev);
  void OnBatch(ReplyPtr reply);
  void NoteBatch(const redisReply& reply, const Batch& batch) TM_REQUIRES(shared_.mutex);
  void StopAt(std::string_view why, std::string_view epoch, std::string_view where)
      TM_REQUIRES(shared_.mutex);
  void Refused(std::string_view why) TM_REQUIRES(shared_.mutex);
  void SendRenewals() TM_REQUIRES(shared_.mutex);
  void OnRenewals(const std::string& topic, const std::vector<ClientView::Renewal>& renewals,
                  ReplyPtr reply);

  // redis_io_fetch.cc: messages and topics.
  void SendReads() TM_REQUIRES(shared_.mutex);
  void StopReads();
  void SendTicks() TM_REQUIRES(shared_.mutex);
  void OnTick(const Asked& asked, ReplyPtr reply);
  void LostContent() TM_REQUIRES(shared_.mutex);
  void KillBusy();
  void RefreshTopics();
  void SendFetches() TM_REQUIRES(shared_.mutex);
  void OnFetch(const Asked& asked, ReplyPtr reply);
  void BlockForMore() TM_REQUIRES(shared_.mutex);
  void OnBlocked(ReplyPtr reply);
  void TakeEntries(const Asked& asked, redisReply& entries);
  void LoadBody(const Asked& asked, RedisEntry entry);
  void OnBody(const Asked& asked, RedisEntry entry, Result<std::string> body);
  void Suspend(const Asked& asked);

  const RedisBusOptions& options_;
  const RedisAddress address_;
  const Clock& clock_;
  BrokerShared& shared_;
  const std::function<void(const std::string&)> wake_;
  const RedisKeys keys_;
  Random random_;
  const std::string client_;  // this client's own name: its consumer, its sequence key
  int event_fd_ = -1;
  std::atomic<bool> signaled_ = false;

  // All below belongs to the thread.
  RedisSession session_;
  Status broken_;      // set by a callback: give the connection up
  std::string epoch_;  // of the data we know
  Time reconnect_at_{};
  int failures_ = 0;  // to connect, in a row
  std::vector<std::string> wake_later_;

  std::deque<Batch> in_flight_;
  std::vector<BusCall> put_back_;  // calls that were not done, until nothing is in flight
  bool rewinding_ = false;
  uint64_t next_seq_ = 1;
  std::string expected_ = "*";  // what the sequence key will hold after what is in flight
  uint64_t next_body_ = 1;
  Time retry_at_{};
  Duration retry_delay_{};
  Time full_since_{};
  bool making_room_ = false;  // the server has no memory left: only what adds nothing is sent

  Time next_tend_{};
  Time next_refresh_{};
  std::map<std::string, std::vector<ClientView::Renewal>, std::less<>> renewals_sent_;
  std::vector<Asked> blocked_on_;
  bool unblock_sent_ = false;
  std::thread thread_;
};

}  // namespace tidemill
