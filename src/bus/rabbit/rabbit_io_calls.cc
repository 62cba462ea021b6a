// The part of RabbitIo that carries calls, and does with deliveries what they say.
#include <algorithm>
#include <charconv>
#include <utility>

#include "bus/rabbit/rabbit_channels.h"
#include "bus/rabbit/rabbit_io.h"
#include "bus/topic_rules.h"
#include "core/log.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

constexpr size_t kCallsAtOnce = 128;
constexpr size_t kBytesAtOnce = 1 << 20;
constexpr size_t kUnconfirmedMax = 2048;
constexpr size_t kUnconfirmedBytesMax = 16 << 20;
constexpr Duration kRemovedLasts = std::chrono::minutes(2);
constexpr Duration kParkingLasts = std::chrono::hours(24 * 30);
constexpr Duration kDiedLasts = std::chrono::hours(24);
constexpr std::string_view kBeforeHeader = "deliveries";  // before this one; absent: none
constexpr std::string_view kAnswererHeader = "answerer", kAnswersHeader = "answers";

uint64_t HeaderNumber(const RabbitMessage& message, std::string_view header) {
  const std::string_view text = message.Header(header);
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

// A queue is deleted when all that was published before is confirmed, and nothing is published
// until it is gone: the broker refuses what a queue that goes had not confirmed, which is then
// published again, into the topic's next queue; and what it gets while a quorum queue goes, it may
// confirm and lose.
void RabbitIo::SendCalls() {
  while (broken_.ok() && !removing_ && sender_.waiting() < kUnconfirmedMax &&
         sender_.waiting_bytes() < kUnconfirmedBytesMax) {
    std::vector<BusCall> calls;
    {
      MutexLock lock(shared_.mutex);
      calls = shared_.local.TakeCalls(kCallsAtOnce, kBytesAtOnce);
    }
    if (calls.empty()) return;
    size_t sent = 0;
    while (sent < calls.size() && !removing_) {
      if (calls[sent].letter == 'd' && !sender_.idle()) break;
      Send(std::move(calls[sent++]));
    }
    if (sent == calls.size()) continue;
    calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(sent));
    MutexLock lock(shared_.mutex);
    shared_.local.PutBack(std::move(calls));
    return;
  }
}

void RabbitIo::Send(BusCall call) {
  Moved(call.topic);
  switch (call.letter) {
    case 'o':
    case 'O':
      return SendDeclare(std::move(call));
    case 'd':
      return SendDelete(std::move(call));
    case 'p':
    case 'q':
    case 'r':
      return SendPublish(std::move(call));
    case 'l':
      Check(deliveries_.StopConsuming(*connection_, call.topic));
      return DoneWith(call, 0);
    case 'f': {
      MutexLock lock(shared_.mutex);
      SettleOwed(call.topic, call.generation, call.owed_change, -std::stoll(call.b));
      return Settle(call, 0);
    }
    default:
      return sender_.After([this, call = std::move(call)] { EndDelivery(call); });
  }
}

void RabbitIo::DoneWith(const BusCall& call, int size_change) {
  MutexLock lock(shared_.mutex);
  Settle(call, size_change);
}

// The call has taken effect: what it was to change is changed.
void RabbitIo::Settle(const BusCall& call, int size_change) {
  Moved(call.topic);
  shared_.local.Done(call);
  ViewedTopic* topic = shared_.local.Find(call.topic);
  if (topic != nullptr && topic->generation == call.generation) {
    topic->size = std::max<int64_t>(0, topic->size + size_change);
  }
}

// What an inbox is owed changes when the call is sent: its answer may come before its confirm.
void RabbitIo::SettleOwed(std::string_view name, uint64_t generation, int& expected,
                          int64_t change) {
  ViewedTopic* inbox = shared_.local.Find(name);
  if (inbox != nullptr && inbox->generation == generation) {
    inbox->owed_change -= expected;
    inbox->owed = std::max<int64_t>(0, inbox->owed + change);
  }
  expected = 0;
}

void RabbitIo::SendDeclare(BusCall call) {
  Check(connection_->Declare(kRabbitMain, TopicQueue(names_, call.topic, address_.quorum)));
  const std::string removed = std::string(kRemovedNote) + call.topic;
  if (book_.Find(removed, Now()) != nullptr) {
    RabbitMessage back = book_.Erase(removed, wall_.WallMs());
    back.exchange = names_.Book();
    Check(connection_->Publish(kRabbitBookChannel, back));
  }
  heard_.Opened(call.topic, book_, client_, Now());
  missing_.erase(call.topic);
  next_figures_ = {};
  asked_.push_back(std::move(call));
  answers_[kRabbitMain].push_back([this](const RabbitEvent&) {
    const BusCall done = std::move(asked_.front());
    asked_.pop_front();
    DoneWith(done, 0);
  });
}

void RabbitIo::SendDelete(BusCall call) {
  Check(deliveries_.StopConsuming(*connection_, call.topic));
  Check(deliveries_.EndAll(*connection_, call.topic));
  parked_.Forget(call.topic);
  WriteNote(std::string(kRemovedNote) + call.topic, "", kRemovedLasts);
  Check(connection_->Delete(kRabbitMain, names_.Topic(call.topic)));
  removing_ = true;
  asked_.push_back(std::move(call));
  answers_[kRabbitMain].push_back([this](const RabbitEvent&) {
    removing_ = false;
    const BusCall done = std::move(asked_.front());
    asked_.pop_front();
    DoneWith(done, 0);
  });
}

void RabbitIo::SendPublish(BusCall call) {
  RabbitMessage message;
  message.key = names_.Topic(call.topic);
  message.id = client_ + "." + std::to_string(next_message_++);
  message.body = std::move(call.body);
  message.mandatory = true;
  if (call.letter == 'r') {
    message.headers = {{std::string(kAnswererHeader), client_},
                       {std::string(kAnswersHeader), std::to_string(++answers_given_[call.topic])}};
  }
  {
    MutexLock lock(shared_.mutex);
    if (call.letter == 'q') SettleOwed(call.a, call.inbox_generation, call.owed_change, 1);
    if (call.letter == 'r') SettleOwed(call.topic, call.generation, call.owed_change, -1);
  }
  ++on_its_way_[call.topic];
  Check(sender_.Publish(*connection_, std::move(message), false,
                        [this, call = std::move(call)](RabbitSender::Outcome outcome) {
                          OnPublished(call, outcome);
                        }));
}

void RabbitIo::OnPublished(const BusCall& call, RabbitSender::Outcome outcome) {
  --on_its_way_[call.topic];
  const bool taken = outcome == RabbitSender::Outcome::kTaken;
  MutexLock lock(shared_.mutex);
  Settle(call, taken ? 1 : 0);
  if (taken) return;
  ++shared_.stats.dropped;
  int none = 0;
  if (call.letter == 'q') SettleOwed(call.a, call.inbox_generation, none, -1);
  if (call.letter == 'r') shared_.local.InboxGone(call.topic);
}

void RabbitIo::EndDelivery(const BusCall& call) {
  RabbitDelivery* delivery = connection_ == nullptr ? nullptr : deliveries_.Find(call.a);
  if (delivery == nullptr) {
    DoneWith(call, 0);
    MutexLock lock(shared_.mutex);
    ++shared_.stats.lost;
    return;
  }
  const bool dead_letter = call.topic == kDeadTopic;
  uint32_t deliveries_max = UINT32_MAX;
  {
    MutexLock lock(shared_.mutex);
    const ViewedTopic* topic = shared_.local.Find(call.topic);
    if (topic != nullptr && !dead_letter) deliveries_max = topic->options.max_deliveries;
  }
  const uint32_t deliveries = delivery->before + 1;
  switch (call.letter) {
    case 'a':
      Check(deliveries_.End(*connection_, delivery->tag));
      return DoneWith(call, -1);
    case 'u':
      return CopyBack(*delivery, delivery->before, Duration::zero(), call);
    case 'x':
      if (!dead_letter) return Bury(*delivery, call.b, call);
      Check(deliveries_.End(*connection_, delivery->tag));
      return DoneWith(call, -1);
    default:
      break;
  }
  const bool expired = call.letter == 'e';
  if (deliveries >= deliveries_max) {
    const std::string why = expired ? "the lease expired at delivery " : "returned after delivery ";
    return Bury(*delivery, why + std::to_string(deliveries), call);
  }
  const Duration delay = expired ? Duration::zero() : milliseconds(std::stoll(call.b));
  CopyBack(*delivery, deliveries, delay, call);
}

// First the letter, then the end of what it is about: a crash in between leaves both.
void RabbitIo::Bury(RabbitDelivery& delivery, std::string reason, const BusCall& call) {
  v1::DeadLetter letter;
  letter.set_topic(delivery.topic);
  letter.set_body(std::move(delivery.message.body));
  letter.set_reason(std::move(reason));
  letter.set_deliveries(delivery.before + 1);
  letter.set_died_ms(wall_.WallMs());
  RabbitMessage message;
  message.key = names_.Topic(kDeadTopic);
  message.id = client_ + "." + std::to_string(next_message_++);
  message.body = letter.SerializeAsString();
  ++on_its_way_[delivery.topic];
  Moved(std::string(kDeadTopic));
  const uint64_t died = ++died_[delivery.topic];
  WriteNote(std::string(kDiedNote) + delivery.topic + " " + client_, std::to_string(died),
            kDiedLasts);
  const auto done = [this, tag = delivery.tag, topic = delivery.topic,
                     call](RabbitSender::Outcome outcome) {
    if (outcome != RabbitSender::Outcome::kLost) WakeLater(std::string(kDeadTopic));
    FinishCopy(outcome == RabbitSender::Outcome::kLost ? 0 : tag, topic, call, -1);
  };
  Check(sender_.Publish(*connection_, std::move(message), true, done));
}

// The message goes to its queue again as a new one that remembers its deliveries; then the old one
// is acknowledged.
void RabbitIo::CopyBack(RabbitDelivery& delivery, uint32_t before, Duration delay,
                        const BusCall& call) {
  RabbitMessage message;
  message.key = names_.Topic(delivery.topic);
  message.id = delivery.message.id;
  message.body = std::move(delivery.message.body);
  if (before > 0) message.headers = {{std::string(kBeforeHeader), std::to_string(before)}};
  message.mandatory = true;
  if (delay > Duration::zero()) {
    const Duration level = ParkingLevel(delay);
    NeedParking(level);
    message.exchange = names_.Parking(level);
    parked_.Add(delivery.topic, clock_.Now() + level);
  }
  ++on_its_way_[delivery.topic];
  const auto done = [this, tag = delivery.tag, topic = delivery.topic,
                     call](RabbitSender::Outcome outcome) {
    FinishCopy(outcome == RabbitSender::Outcome::kLost ? 0 : tag, topic, call, 0);
    if (outcome != RabbitSender::Outcome::kReturned) return;
    MutexLock lock(shared_.mutex);
    ++shared_.stats.dropped;  // its topic was removed meanwhile
  };
  Check(sender_.Publish(*connection_, std::move(message), true, done));
}

// `tag` 0: the connection was lost and the delivery with it. A call without a letter was made here.
void RabbitIo::FinishCopy(uint64_t tag, const std::string& topic, const BusCall& call,
                          int size_change) {
  --on_its_way_[topic];
  Moved(topic);
  if (tag != 0) Check(deliveries_.End(*connection_, tag));
  if (call.letter != 0) DoneWith(call, tag != 0 ? size_change : 0);
}

void RabbitIo::NeedParking(Duration level) {
  if (!parkings_.insert(level).second) return;
  const RabbitQueue queue = ParkingQueue(names_, level, address_.quorum);
  // An exchange of its own keeps the message's key, which says where it goes afterwards.
  Check(connection_->DeclareFanout(kRabbitMain, queue.name));
  Check(connection_->Declare(kRabbitMain, queue));
  Check(connection_->Bind(kRabbitMain, queue.name, queue.name));
  WriteNote(std::string(kParkingNote) + queue.name, "", kParkingLasts);
  for (int i = 0; i < 3; ++i) answers_[kRabbitMain].push_back([](const RabbitEvent&) {});
}

void RabbitIo::OnDelivered(RabbitEvent event) {
  RabbitDelivery delivery;
  delivery.tag = event.tag;
  delivery.consumer = std::move(event.consumer);
  delivery.topic = RabbitDeliveries::TopicOf(delivery.consumer);
  delivery.message = std::move(event.message);
  delivery.before = static_cast<uint32_t>(
      std::min<uint64_t>(HeaderNumber(delivery.message, kBeforeHeader), 1 << 20));
  Moved(delivery.topic);
  const std::string topic = delivery.topic;
  if (const std::string_view answerer = delivery.message.Header(kAnswererHeader);
      !answerer.empty() && answerer != client_) {
    HearAnswers(answerer, {{topic, {.answers = HeaderNumber(delivery.message, kAnswersHeader)}}});
  }
  if (event.redelivered) return TakeAgain(std::move(delivery));
  FetchedMessage fetched;
  fetched.id = delivery.message.id;
  fetched.deliveries = delivery.before + 1;
  fetched.body = delivery.message.body;
  fetched.fetched = fetched.renewed = clock_.Now();
  fetched.entry = deliveries_.Note(std::move(delivery));
  MutexLock lock(shared_.mutex);
  ViewedTopic* known = shared_.local.Find(topic);
  if (known == nullptr || !known->open) return;  // it is being removed, and its queue with it
  known->fetched.push_back(std::move(fetched));
  WakeLater(topic);
}

// Somebody had it and lost it, with a connection: that was a delivery, which the message does not
// know yet.
void RabbitIo::TakeAgain(RabbitDelivery delivery) {
  uint32_t deliveries_max = UINT32_MAX;
  {
    MutexLock lock(shared_.mutex);
    const ViewedTopic* topic = shared_.local.Find(delivery.topic);
    if (topic != nullptr && delivery.topic != kDeadTopic) {
      deliveries_max = topic->options.max_deliveries;
    }
  }
  const std::string entry = deliveries_.Note(std::move(delivery));
  RabbitDelivery& noted = *deliveries_.Find(entry);
  if (noted.before + 1 >= deliveries_max) {
    const std::string why = "the lease expired at delivery " + std::to_string(noted.before + 1);
    return Bury(noted, why + ", with its holder's connection", {});
  }
  CopyBack(noted, noted.before + 1, Duration::zero(), {});
}

}  // namespace tidemill
