// The I/O thread of a RabbitBus: carries calls to the broker in their order, fetches what is in
// demand, looks after topics, tells the run's other members what the broker does not, and connects
// again when the connection is lost.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bus/rabbit/rabbit_book.h"
#include "bus/rabbit/rabbit_bus.h"
#include "bus/rabbit/rabbit_connection.h"
#include "bus/rabbit/rabbit_deliveries.h"
#include "bus/rabbit/rabbit_figures.h"
#include "bus/rabbit/rabbit_names.h"
#include "bus/rabbit/rabbit_sender.h"
#include "core/random.h"

namespace tidemill {

class RabbitIo final : public BrokerCarrier {
 public:
  RabbitIo(const RabbitBusOptions& options, RabbitAddress address, const Clock& clock,
           BrokerShared& shared, std::function<void(const std::string&)> wake);
  // Ends the thread: after Close(), once all is sent or close_patience is over.
  ~RabbitIo() override;

  // Connects and starts the thread.
  Status Start();
  void Signal() override;

 private:
  using Answer = std::function<void(const RabbitEvent&)>;
  // What the broker said of a topic's queue, until it is known that nothing moved meanwhile.
  struct Look {
    std::string topic;
    uint64_t generation = 0;
    uint64_t activity = 0;
    bool quiet = false;  // nothing of ours was on its way when it was asked
    uint32_t ready = 0;
  };

  // rabbit_io.cc: the thread, and connecting.
  void Run();
  bool Finished();
  Status Connect();
  void TryConnect();
  void Disconnect(const Status& why);
  void Exchange();
  Status Read();
  void Wait();
  void TakeEvent(RabbitEvent event);
  void OnChannelClosed(const RabbitEvent& event);
  void Deliver();
  void Tend() TM_REQUIRES(shared_.mutex);
  void Check(const Status& sent);  // gives the connection up if it failed
  void WakeLater(const std::string& topic) { wake_later_.push_back(topic); }
  static Time Now() { return std::chrono::steady_clock::now(); }

  // rabbit_io_calls.cc: calls, and what becomes of deliveries.
  void SendCalls();
  void Send(BusCall call);
  void SendDeclare(BusCall call);
  void SendDelete(BusCall call);
  void SendPublish(BusCall call);
  void OnPublished(const BusCall& call, RabbitSender::Outcome outcome);
  void EndDelivery(const BusCall& call);
  void Bury(RabbitDelivery& delivery, std::string reason, const BusCall& call);
  void CopyBack(RabbitDelivery& delivery, uint32_t before, Duration delay, const BusCall& call);
  void FinishCopy(uint64_t tag, const std::string& topic, const BusCall& call, int size_change);
  void DoneWith(const BusCall& call, int size_change);
  void Settle(const BusCall& call, int size_change) TM_REQUIRES(shared_.mutex);
  void SettleOwed(std::string_view name, uint64_t generation, int& expected, int64_t change)
      TM_REQUIRES(shared_.mutex);
  void OnDelivered(RabbitEvent event);
  void TakeAgain(RabbitDelivery delivery);
  void NeedParking(Duration level);
  void Moved(const std::string& topic) { ++activity_[topic]; }

  // rabbit_io_topics.cc: what is known of topics.
  void SendLooks() TM_REQUIRES(shared_.mutex);
  void OnLook(Look look, const RabbitEvent& event);
  void OnLooks();
  void TakeLook(const Look& look) TM_REQUIRES(shared_.mutex);
  void OnMissing(const std::string& topic);
  void LostContent() TM_REQUIRES(shared_.mutex);
  void WriteFigures() TM_REQUIRES(shared_.mutex);
  void WriteNote(std::string_view key, std::string value, Duration lasts);
  void OnNote(RabbitMessage message);
  void OnHeldQuestion(const RabbitMessage& question);
  void HearAnswers(std::string_view client, const RabbitFigures& figures);
  void RefreshTopics() TM_REQUIRES(shared_.mutex);

  const RabbitBusOptions& options_;
  const RabbitAddress address_;
  const Clock& clock_;  // of leases and delays
  BrokerShared& shared_;
  const std::function<void(const std::string&)> wake_;
  const RabbitNames names_;
  const std::string client_;  // this client's own name
  const RealClock wall_;
  Random random_;
  int event_fd_ = -1;
  std::atomic<bool> signaled_ = false;

  // All below belongs to the thread.
  std::unique_ptr<RabbitConnection> connection_;
  Status broken_;  // give the connection up
  bool connected_once_ = false;
  Time reconnect_at_{};
  int failures_ = 0;
  std::vector<std::string> wake_later_;
  std::map<uint16_t, std::deque<Answer>> answers_;  // that will come, by channel
  std::deque<BusCall> asked_;                       // declared or deleted, not yet answered
  bool removing_ = false;                           // a queue is being deleted

  RabbitSender sender_;
  RabbitDeliveries deliveries_;
  uint64_t next_message_ = 1;
  std::set<Duration> parkings_;                            // declared on this connection
  std::map<std::string, size_t, std::less<>> on_its_way_;  // copies and publishes, by topic
  std::map<std::string, uint64_t, std::less<>> activity_;
  std::map<std::string, uint64_t, std::less<>> answers_given_;  // by inbox
  std::map<std::string, uint64_t, std::less<>> died_;           // by topic

  RabbitBook book_;
  std::map<std::string, RabbitFigures, std::less<>> others_;  // by member
  RabbitParked parked_;
  RabbitAnswers heard_;
  std::vector<Look> looks_;  // answered, of this round
  size_t looks_asked_ = 0;
  bool looking_ = false;
  std::map<std::string, int, std::less<>> missing_;  // looks in a row that found no queue
  std::map<std::string, int, std::less<>> unsure_;   // looks in a row at a topic in motion
  Time next_tend_{}, next_figures_{}, figures_lapse_{}, next_refresh_{};
  std::string figures_written_;
  std::thread thread_;
};

}  // namespace tidemill
