#include "bus/rabbit/rabbit_client.h"

#include <utility>

#include "bus/rabbit/rabbit_channels.h"
#include "bus/rabbit/rabbit_member.h"

namespace tidemill {

RabbitClient::RabbitClient(RabbitAddress address, std::string_view run, Duration timeout)
    : address_(std::move(address)),
      names_(run),
      client_(NewRabbitClient("watcher")),
      timeout_(timeout) {}

Result<RabbitClient> RabbitClient::Connect(std::string_view url, std::string_view run,
                                           Duration timeout) {
  TM_RETURN_IF_ERROR(CheckRabbitRun(run));
  TM_ASSIGN_OR_RETURN(RabbitAddress address, ParseRabbitUrl(url));
  RabbitClient client(std::move(address), run, timeout);
  TM_RETURN_IF_ERROR(client.Ready());
  return client;
}

// No heartbeat: nobody would send it between two calls.
Status RabbitClient::Ready() {
  if (connection_ == nullptr) {
    TM_ASSIGN_OR_RETURN(auto connection, RabbitConnection::Connect(address_, timeout_, 0));
    TM_RETURN_IF_ERROR(
        JoinRabbitBook(*connection, kRabbitBookChannel, names_, client_, timeout_, book_));
    connection_ = std::move(connection);
  }
  while (true) {
    Result<std::optional<RabbitEvent>> event = connection_->Next(Duration::zero());
    if (!event.ok()) return Lost(event.status());
    if (!*event) return Ok();
    if ((*event)->kind == RabbitEvent::Kind::kChannelClosed) {
      return Lost(Unavailable("rabbitmq closed a channel: " + (*event)->text));
    }
    if ((*event)->kind == RabbitEvent::Kind::kDelivered &&
        (*event)->channel == kRabbitBookChannel) {
      book_.Take(std::move((*event)->message), Now());
    }
  }
}

Status RabbitClient::Lost(Status why) {
  connection_.reset();
  return why;
}

Result<const RabbitBook*> RabbitClient::Book() {
  Status ready = Ready();
  if (ready.code() == Code::kUnavailable) ready = Ready();  // on a connection made anew
  if (!ready.ok()) return ready;
  return &book_;
}

Status RabbitClient::Tell(const RabbitMessage& message) {
  TM_RETURN_IF_ERROR(Book().status());
  const Status sent = connection_->Publish(kRabbitBookChannel, message);
  return sent.ok() ? sent : Lost(sent);
}

Status RabbitClient::Write(std::string_view key, std::string value, Duration lasts) {
  TM_RETURN_IF_ERROR(Book().status());
  RabbitMessage message = book_.Write(key, std::move(value), lasts, Now(), wall_.WallMs());
  message.exchange = names_.Book();
  return Tell(message);
}

Status RabbitClient::Erase(std::string_view key) {
  TM_RETURN_IF_ERROR(Book().status());
  RabbitMessage message = book_.Erase(key, wall_.WallMs());
  message.exchange = names_.Book();
  return Tell(message);
}

Status RabbitClient::EraseAllBut(const std::vector<std::string>& but) {
  TM_RETURN_IF_ERROR(Book().status());
  RabbitMessage message = book_.EraseAllBut(but, wall_.WallMs());
  message.exchange = names_.Book();
  return Tell(message);
}

Status RabbitClient::AskMembers(RabbitMessage question, Duration patience,
                                const std::function<bool(const RabbitMessage&)>& answered) {
  question.exchange = names_.Book();
  question.persistent = false;
  TM_RETURN_IF_ERROR(Tell(question));
  const Time until = Now() + patience;
  while (Now() < until) {
    Result<std::optional<RabbitEvent>> event = connection_->Next(until - Now());
    if (!event.ok()) return Lost(event.status());
    if (!*event || (*event)->kind != RabbitEvent::Kind::kDelivered) continue;
    if (answered((*event)->message)) return Ok();
    book_.Take(std::move((*event)->message), Now());
  }
  return Timeout("some members of the run did not answer");
}

Result<RabbitEvent> RabbitClient::Channel::Ask(
    const std::function<Status(RabbitConnection&, uint16_t)>& send) {
  TM_RETURN_IF_ERROR(send(connection_, number_));
  return connection_.Answer(number_, timeout_);
}

Result<std::optional<RabbitEvent>> RabbitClient::Channel::NextDelivery(Duration patience) {
  const Time until = Now() + patience;
  while (Now() < until) {
    TM_ASSIGN_OR_RETURN(std::optional<RabbitEvent> event, connection_.Next(until - Now()));
    if (event && event->channel == number_ && event->kind == RabbitEvent::Kind::kDelivered) {
      return event;
    }
  }
  return std::optional<RabbitEvent>();
}

Status RabbitClient::Channel::AwaitConfirm() {
  const Time until = Now() + timeout_;
  while (Now() < until) {
    TM_ASSIGN_OR_RETURN(std::optional<RabbitEvent> event, connection_.Next(until - Now()));
    if (!event || event->channel != number_) continue;
    switch (event->kind) {
      case RabbitEvent::Kind::kConfirmed:
        return Ok();
      case RabbitEvent::Kind::kReturned:
        return NotFound("rabbitmq: no queue " + event->message.key);
      case RabbitEvent::Kind::kRefused:
        return Full("rabbitmq: the queue " + event->message.key + " takes no more");
      case RabbitEvent::Kind::kChannelClosed:
        return Invalid("rabbitmq: " + event->text);
      default:
        break;
    }
  }
  return Unavailable("rabbitmq: no answer");
}

// A connection of its own: what a refused question closes is this channel, and what a channel with
// deliveries left behind gives back is given back when the connection ends.
Status RabbitClient::OnChannel(const std::function<Status(Channel&)>& use) {
  TM_ASSIGN_OR_RETURN(const auto connection, RabbitConnection::Connect(address_, timeout_, 0));
  TM_RETURN_IF_ERROR(connection->OpenChannel(kRabbitMain));
  TM_RETURN_IF_ERROR(connection->Answer(kRabbitMain, timeout_).status());
  Channel channel(*connection, kRabbitMain, timeout_);
  return use(channel);
}

}  // namespace tidemill
