// A connection to a RabbitMQ broker over librabbitmq: methods out, events in. Nothing here knows of
// topics. Sending never waits for an answer; Next() gives what arrived, in its order, with the
// content of a message assembled.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bus/rabbit/rabbit_url.h"
#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

// What a message carries besides its body.
struct RabbitMessage {
  std::string exchange;  // empty: to the queue named by `key`
  std::string key;
  std::string id;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool persistent = true;
  bool mandatory = false;    // comes back where no queue takes it
  Duration expires_after{};  // in its queue; 0: never

  // Empty: there is no such header.
  std::string_view Header(std::string_view name) const;
};

using RabbitValue = std::variant<int64_t, std::string>;

struct RabbitQueue {
  std::string name;
  bool passive = false;  // only looked for
  bool durable = true;
  bool exclusive = false;  // of this connection, and gone with it
  std::vector<std::pair<std::string, RabbitValue>> arguments = {};
};

struct RabbitEvent {
  enum class Kind {
    kDelivered,
    kReturned,   // a mandatory message that no queue took
    kConfirmed,  // published messages up to or at `tag`
    kRefused,
    kDeclared,  // of a queue: messages ready, consumers
    kDone,      // any other answer to a method
    kGot,       // an answer to Get
    kGotNothing,
    kCancelled,  // by the broker: the queue of the consumer is gone
    kChannelClosed,
  };
  Kind kind = Kind::kDone;
  uint16_t channel = 0;
  uint64_t tag = 0;       // of the delivery, or of the last one confirmed
  bool multiple = false;  // all up to the tag
  bool redelivered = false;
  std::string consumer = {};
  uint32_t messages = 0, consumers = 0;
  int code = 0;  // of an error: 404, 406, ..
  std::string text = {};
  RabbitMessage message = {};
};

// Belongs to one thread.
class RabbitConnection {
 public:
  // kInvalid: the broker refused us, or a file of the address cannot be used. kUnavailable: it did
  // not answer. `heartbeat_s` 0: none.
  static Result<std::unique_ptr<RabbitConnection>> Connect(const RabbitAddress& address,
                                                           Duration timeout, int heartbeat_s);
  ~RabbitConnection();
  RabbitConnection(const RabbitConnection&) = delete;

  // Each sends one method; a failure means that the connection is lost. All but those marked are
  // answered by one event of their channel.
  Status OpenChannel(uint16_t channel);
  Status ConfirmPublishes(uint16_t channel);
  Status DeclareFanout(uint16_t channel, const std::string& exchange);
  Status DeleteExchange(uint16_t channel, const std::string& exchange);
  Status Declare(uint16_t channel, const RabbitQueue& queue);
  Status Bind(uint16_t channel, const std::string& queue, const std::string& exchange);
  Status Delete(uint16_t channel, const std::string& queue);
  Status Prefetch(uint16_t channel, uint16_t count);  // of consumers that come after it
  struct Consumer {
    std::string queue;
    std::string name;
    bool acknowledges = true;
    std::vector<std::pair<std::string, RabbitValue>> arguments = {};
  };
  Status Consume(uint16_t channel, const Consumer& consumer);    // not answered
  Status Cancel(uint16_t channel, const std::string& consumer);  // not answered
  Status Ack(uint16_t channel, uint64_t tag);                    // not answered
  Status Get(uint16_t channel, const std::string& queue);
  Status Publish(uint16_t channel, const RabbitMessage& message);  // answered by a confirm, if any

  // What arrived, waiting for it for `patience` at most; none: nothing did. kUnavailable: the
  // connection is lost. Also keeps the heartbeat going.
  Result<std::optional<RabbitEvent>> Next(Duration patience);
  // The answer to what was sent last on the channel; other events stay for Next. kNotFound: 404;
  // kInvalid: any other refusal, which closed the channel.
  Result<RabbitEvent> Answer(uint16_t channel, Duration patience);

  int fd() const;

 private:
  struct State;
  explicit RabbitConnection(std::unique_ptr<State> state);
  Result<std::optional<RabbitEvent>> ReadFrame(Duration patience);
  Status Send(uint16_t channel, uint32_t method, void* decoded);
  Status Sent(int code);  // of librabbitmq

  std::unique_ptr<State> state_;
  std::deque<RabbitEvent> passed_over_;  // by Answer
};

}  // namespace tidemill
