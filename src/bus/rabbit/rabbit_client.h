// One question after the other to a RabbitMQ broker, each waited for, by a member of the run's
// book: for heartbeats, `tidemill status` and other things that are not loops. A connection that
// was lost is made again by the next call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/rabbit/rabbit_book.h"
#include "bus/rabbit/rabbit_connection.h"
#include "bus/rabbit/rabbit_names.h"
#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

// Belongs to one thread.
class RabbitClient {
 public:
  // kInvalid: the URL or the run's name is wrong, or the broker refused us.
  static Result<RabbitClient> Connect(std::string_view url, std::string_view run,
                                      Duration timeout = std::chrono::seconds(5));

  // The book, with all that has arrived by now.
  Result<const RabbitBook*> Book();
  // Tells every member.
  Status Write(std::string_view key, std::string value, Duration lasts);
  Status Erase(std::string_view key);
  Status EraseAllBut(const std::vector<std::string>& but);
  // To all members, as it is; what they answer to `answer_queue()` is given to `answered` until
  // that says it was the last, or patience ends.
  Status AskMembers(RabbitMessage question, Duration patience,
                    const std::function<bool(const RabbitMessage&)>& answered);
  std::string answer_queue() const { return names_.Member(client_); }

  // Sends by `send` on a channel of its own, which closes at the end, and gives the answers.
  // Messages that were got and not acknowledged go back to their queue.
  class Channel {
   public:
    Status Send(const std::function<Status(RabbitConnection&, uint16_t channel)>& send) {
      return send(connection_, number_);
    }
    Result<RabbitEvent> Ask(const std::function<Status(RabbitConnection&, uint16_t channel)>& send);
    // The broker has what was published last; the channel confirms.
    Status AwaitConfirm();
    // A delivery to a consumer of this channel; none: patience ended.
    Result<std::optional<RabbitEvent>> NextDelivery(Duration patience);

   private:
    friend class RabbitClient;
    Channel(RabbitConnection& connection, uint16_t number, Duration timeout)
        : connection_(connection), number_(number), timeout_(timeout) {}
    RabbitConnection& connection_;
    const uint16_t number_;
    const Duration timeout_;
  };
  Status OnChannel(const std::function<Status(Channel&)>& use);

  const RabbitNames& names() const { return names_; }
  const RabbitAddress& address() const { return address_; }
  static Time Now() { return std::chrono::steady_clock::now(); }

 private:
  RabbitClient(RabbitAddress address, std::string_view run, Duration timeout);
  Status Ready();
  Status Tell(const RabbitMessage& message);
  Status Lost(Status why);

  RabbitAddress address_;
  RabbitNames names_;
  std::string client_;
  Duration timeout_;
  RealClock wall_;
  RabbitBook book_;
  std::unique_ptr<RabbitConnection> connection_;
};

}  // namespace tidemill
