#include "bus/rabbit/rabbit_sender.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tidemill {

Status RabbitSender::Publish(RabbitConnection& connection, RabbitMessage message,
                             bool made_of_delivery, Done done) {
  Sent sent = {.number = next_number_++,
               .order = next_order_++,
               .message = std::move(message),
               .made_of_delivery = made_of_delivery,
               .done = std::move(done)};
  bytes_ += sent.message.body.size();
  sent_.push_back(std::move(sent));
  return connection.Publish(channel_, sent_.back().message);
}

void RabbitSender::After(std::function<void()> act) {
  if (idle()) {
    act();
    return;
  }
  acts_.push_back({next_order_ - 1, std::move(act)});
}

Result<bool> RabbitSender::Take(RabbitConnection& connection, const RabbitEvent& event) {
  if (event.channel != channel_) return false;
  switch (event.kind) {
    case RabbitEvent::Kind::kReturned:
      for (Sent& sent : sent_) {
        if (!sent.returned && sent.message.id == event.message.id &&
            sent.message.key == event.message.key) {
          sent.returned = true;
          break;
        }
      }
      return true;
    case RabbitEvent::Kind::kConfirmed:
    case RabbitEvent::Kind::kRefused:
      TM_RETURN_IF_ERROR(Settle(connection, event.tag, event.multiple,
                                event.kind == RabbitEvent::Kind::kConfirmed));
      return true;
    default:
      return false;
  }
}

Status RabbitSender::Settle(RabbitConnection& connection, uint64_t number, bool multiple,
                            bool taken) {
  const auto of_number = [](const Sent& sent, uint64_t n) { return sent.number < n; };
  auto last = std::lower_bound(sent_.begin(), sent_.end(), number, of_number);
  auto first = multiple ? sent_.begin() : last;
  if (last != sent_.end() && last->number == number) ++last;
  std::vector<Sent> settled(std::make_move_iterator(first), std::make_move_iterator(last));
  sent_.erase(first, last);
  for (Sent& sent : settled) {
    if (!taken) {
      // It keeps its place among the acts that wait for it.
      ++refused_;
      sent.number = next_number_++;
      if (!std::exchange(sent.repeated, true)) ++repeated_;
      sent_.push_back(std::move(sent));
      TM_RETURN_IF_ERROR(connection.Publish(channel_, sent_.back().message));
      continue;
    }
    bytes_ -= sent.message.body.size();
    if (sent.repeated) --repeated_;
    sent.done(sent.returned ? Outcome::kReturned : Outcome::kTaken);
  }
  RunActs();
  return Ok();
}

void RabbitSender::RunActs() {
  uint64_t unsafe = sent_.empty() ? next_order_ : sent_.front().order;
  if (repeated_ > 0) {
    for (const Sent& sent : sent_) unsafe = std::min(unsafe, sent.order);
  }
  while (!acts_.empty() && acts_.front().order < unsafe) {
    const std::function<void()> act = std::move(acts_.front().act);
    acts_.pop_front();
    act();
  }
}

void RabbitSender::Lose() {
  std::deque<Sent> kept;
  for (Sent& sent : std::exchange(sent_, {})) {
    if (!sent.made_of_delivery) {
      kept.push_back(std::move(sent));
      continue;
    }
    bytes_ -= sent.message.body.size();
    if (sent.repeated) --repeated_;
    sent.done(Outcome::kLost);
  }
  sent_ = std::move(kept);
  next_number_ = 1;
  RunActs();
}

Status RabbitSender::Resend(RabbitConnection& connection) {
  next_number_ = 1;
  for (Sent& sent : sent_) {
    sent.number = next_number_++;
    sent.returned = false;
    TM_RETURN_IF_ERROR(connection.Publish(channel_, sent.message));
  }
  return Ok();
}

}  // namespace tidemill
