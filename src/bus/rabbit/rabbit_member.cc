#include "bus/rabbit/rabbit_member.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tidemill {
namespace {

constexpr std::string_view kQueueHeader = "queue";
constexpr Duration kCopyPatience = std::chrono::seconds(2);

}  // namespace

Status JoinRabbitBook(RabbitConnection& connection, uint16_t channel, const RabbitNames& names,
                      const std::string& client, Duration patience, RabbitBook& book) {
  const RealClock clock;
  const RabbitQueue mine = MemberQueue(names, client);
  const auto answered = [&](const Status& sent) -> Status {
    TM_RETURN_IF_ERROR(sent);
    return connection.Answer(channel, patience).status();
  };
  TM_RETURN_IF_ERROR(answered(connection.OpenChannel(channel)));
  TM_RETURN_IF_ERROR(answered(connection.DeclareFanout(channel, names.Book())));
  TM_RETURN_IF_ERROR(answered(connection.Declare(channel, mine)));
  TM_RETURN_IF_ERROR(answered(connection.Bind(channel, mine.name, names.Book())));
  TM_RETURN_IF_ERROR(connection.Declare(channel, NewcomersQueue(names)));
  TM_ASSIGN_OR_RETURN(const RabbitEvent newcomers, connection.Answer(channel, patience));
  TM_RETURN_IF_ERROR(connection.Consume(
      channel, {.queue = mine.name, .name = std::string(kBookConsumer), .acknowledges = false}));
  if (newcomers.consumers == 0) return Ok();
  RabbitMessage hello;
  hello.key = names.Newcomers();
  hello.persistent = false;
  hello.headers = {{std::string(kQueueHeader), mine.name}};
  TM_RETURN_IF_ERROR(connection.Publish(channel, hello));
  const Time until = clock.Now() + std::min(patience, kCopyPatience);
  while (!book.TakeEndOfCopy() && clock.Now() < until) {
    TM_ASSIGN_OR_RETURN(std::optional<RabbitEvent> event, connection.Next(until - clock.Now()));
    if (event && event->kind == RabbitEvent::Kind::kDelivered && event->channel == channel) {
      book.Take(std::move(event->message), clock.Now());
    }
  }
  return Ok();
}

Status ServeNewcomers(RabbitConnection& connection, uint16_t channel, const RabbitNames& names) {
  return connection.Consume(
      channel,
      {.queue = names.Newcomers(), .name = std::string(kNewcomersConsumer), .acknowledges = false});
}

Status AnswerNewcomer(RabbitConnection& connection, uint16_t channel, const RabbitMessage& asked,
                      const RabbitBook& book, Time now) {
  const std::string queue(asked.Header(kQueueHeader));
  if (queue.empty()) return Ok();
  for (const RabbitMessage& message : book.Copy(queue, now)) {
    TM_RETURN_IF_ERROR(connection.Publish(channel, message));
  }
  return Ok();
}

}  // namespace tidemill
