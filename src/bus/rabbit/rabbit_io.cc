#include "bus/rabbit/rabbit_io.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "bus/rabbit/rabbit_channels.h"
#include "bus/rabbit/rabbit_member.h"
#include "core/log.h"

namespace tidemill {
namespace {

constexpr int kEventsAtOnce = 2000;

}  // namespace

RabbitIo::RabbitIo(const RabbitBusOptions& options, RabbitAddress address, const Clock& clock,
                   BrokerShared& shared, std::function<void(const std::string&)> wake)
    : options_(options),
      address_(std::move(address)),
      clock_(clock),
      shared_(shared),
      wake_(std::move(wake)),
      names_(options.run),
      client_(NewRabbitClient(options.client)),
      random_(std::random_device{}()),
      event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      sender_(kRabbitMain),
      deliveries_(names_, kRabbitMain) {
  TM_CHECK(event_fd_ >= 0, std::strerror(errno));
}

RabbitIo::~RabbitIo() {
  Signal();
  if (thread_.joinable()) thread_.join();
  close(event_fd_);
}

Status RabbitIo::Start() {
  TM_RETURN_IF_ERROR(Connect());
  thread_ = std::thread([this] { Run(); });
  return Ok();
}

void RabbitIo::Signal() {
  if (signaled_.exchange(true)) return;
  const uint64_t one = 1;
  // Full means that it was signalled often enough already.
  if (write(event_fd_, &one, sizeof one) < 0) return;
}

// A new connection: its channels, the book, every topic that is ours, and what the last one had not
// confirmed.
Status RabbitIo::Connect() {
  TM_ASSIGN_OR_RETURN(auto connection,
                      RabbitConnection::Connect(address_, options_.connect_timeout,
                                                static_cast<int>(options_.heartbeat.count())));
  RabbitConnection& c = *connection;
  const Duration patience = options_.connect_timeout;
  const auto answered = [&](uint16_t channel, const Status& sent) -> Status {
    TM_RETURN_IF_ERROR(sent);
    return c.Answer(channel, patience).status();
  };
  TM_RETURN_IF_ERROR(answered(kRabbitMain, c.OpenChannel(kRabbitMain)));
  TM_RETURN_IF_ERROR(answered(kRabbitMain, c.ConfirmPublishes(kRabbitMain)));
  TM_RETURN_IF_ERROR(answered(kRabbitSide, c.OpenChannel(kRabbitSide)));
  TM_RETURN_IF_ERROR(JoinRabbitBook(c, kRabbitBookChannel, names_, client_, patience, book_));
  TM_RETURN_IF_ERROR(ServeNewcomers(c, kRabbitBookChannel, names_));
  // Nobody removes the dead letters' topic: without it, the broker has lost what it had.
  bool data_lost = false;
  if (connected_once_) {
    const Status there = answered(
        kRabbitSide, c.Declare(kRabbitSide, {.name = names_.Topic(kDeadTopic), .passive = true}));
    data_lost = there.code() == Code::kNotFound;
    if (!there.ok() && !data_lost) return there;
    if (data_lost) TM_RETURN_IF_ERROR(answered(kRabbitSide, c.OpenChannel(kRabbitSide)));
  }
  std::vector<std::string> ours;
  {
    MutexLock lock(shared_.mutex);
    for (const auto& [name, topic] : shared_.local.topics()) {
      if (topic.open && topic.ours) ours.push_back(name);
    }
  }
  for (const std::string& topic : ours) {
    TM_RETURN_IF_ERROR(
        answered(kRabbitMain, c.Declare(kRabbitMain, TopicQueue(names_, topic, address_.quorum))));
  }
  connection_ = std::move(connection);
  broken_ = Ok();
  connected_once_ = true;
  TM_RETURN_IF_ERROR(sender_.Resend(*connection_));
  MutexLock lock(shared_.mutex);
  next_figures_ = figures_lapse_ = next_refresh_ = {};
  others_.clear();
  book_.ForEach(kFiguresNote, Now(), [&](std::string_view client, const RabbitNote& note) {
    if (client != client_) others_[std::string(client)] = ReadFigures(note.value);
  });
  RefreshTopics();
  if (data_lost) {
    LogWarn("rabbitmq lost its data; the topics were created again", {{"run", options_.run}});
    LostContent();
  }
  return Ok();
}

void RabbitIo::Run() {
  while (!Finished()) {
    if (connection_ == nullptr) {
      if (Now() >= reconnect_at_) TryConnect();
      if (connection_ == nullptr) Wait();
      continue;
    }
    Exchange();
    Deliver();
  }
  if (connection_ != nullptr) {
    Check(connection_->Publish(kRabbitBookChannel, [&] {
      RabbitMessage left = book_.Erase(std::string(kFiguresNote) + client_, wall_.WallMs());
      left.exchange = names_.Book();
      return left;
    }()));
  }
  connection_.reset();
}

bool RabbitIo::Finished() {
  MutexLock lock(shared_.mutex);
  if (!shared_.closed) return false;
  if (Now() - shared_.closed_at > options_.close_patience) return true;
  return connection_ != nullptr && sender_.idle() && shared_.Settled();
}

void RabbitIo::TryConnect() {
  const Status connected = Connect();
  if (connected.ok()) {
    failures_ = 0;
    MutexLock lock(shared_.mutex);
    ++shared_.stats.reconnects;
    LogInfo("reconnected to rabbitmq", {{"server", address_.Name()}});
    return;
  }
  connection_.reset();
  // Doubled each time, and anywhere in the upper half, so that many workers do not come at once.
  const double longest = Seconds(options_.reconnect_max);
  const double wait =
      std::min(longest, Seconds(options_.reconnect_min) * static_cast<double>(1ull << failures_));
  failures_ = std::min(failures_ + 1, 20);
  reconnect_at_ = Now() + std::chrono::duration_cast<Duration>(
                              std::chrono::duration<double>(wait * (0.5 + random_.Uniform() / 2)));
  LogEvery(std::chrono::seconds(5), "rabbit-connect", LogLevel::kWarn, "rabbitmq does not answer",
           {{"server", address_.Name()}, {"error", connected.message()}});
}

void RabbitIo::Disconnect(const Status& why) {
  LogWarn("lost the connection to rabbitmq",
          {{"server", address_.Name()}, {"error", why.message()}});
  connection_.reset();
  reconnect_at_ =
      Now() + std::chrono::duration_cast<Duration>(options_.reconnect_min * random_.Uniform());
  answers_.clear();
  removing_ = false;
  looks_.clear();
  looks_asked_ = 0;
  looking_ = false;
  parkings_.clear();
  deliveries_.Lose();
  sender_.Lose();
  MutexLock lock(shared_.mutex);
  shared_.local.LoseDeliveries();
  std::vector<BusCall> again(std::make_move_iterator(asked_.begin()),
                             std::make_move_iterator(asked_.end()));
  asked_.clear();
  shared_.local.PutBack(std::move(again));
}

void RabbitIo::Check(const Status& sent) {
  if (!sent.ok() && broken_.ok()) broken_ = sent;
}

void RabbitIo::Tend() {
  const Time now = Now();
  if (now >= next_tend_) {
    next_tend_ = now + options_.tick / 2;
    shared_.local.TendLeases(options_.linger);
  }
  for (auto& [name, topic] : shared_.local.topics()) {
    if (shared_.closed) {
      Check(deliveries_.StopConsuming(*connection_, name));
      continue;
    }
    size_t asks = 0;
    Check(deliveries_.Sync(*connection_, topic, asks));
    for (; asks > 0; --asks) answers_[kRabbitMain].push_back([](const RabbitEvent&) {});
  }
  if (shared_.closed) return;
  SendLooks();
  RefreshTopics();
  WriteFigures();
}

void RabbitIo::Exchange() {
  {
    MutexLock lock(shared_.mutex);
    Tend();
  }
  if (broken_.ok()) SendCalls();
  if (broken_.ok()) Wait();
  if (broken_.ok()) Check(Read());
  if (!broken_.ok()) Disconnect(broken_);
}

Status RabbitIo::Read() {
  for (int i = 0; i < kEventsAtOnce && broken_.ok(); ++i) {
    TM_ASSIGN_OR_RETURN(std::optional<RabbitEvent> event, connection_->Next(Duration::zero()));
    if (!event) return Ok();
    TakeEvent(std::move(*event));
  }
  if (broken_.ok()) Signal();  // there may be more
  return Ok();
}

void RabbitIo::TakeEvent(RabbitEvent event) {
  using Kind = RabbitEvent::Kind;
  const Result<bool> of_sender = sender_.Take(*connection_, event);
  Check(of_sender.status());
  if (!of_sender.ok() || *of_sender) return;
  switch (event.kind) {
    case Kind::kDelivered:
      if (event.channel == kRabbitMain) {
        OnDelivered(std::move(event));
      } else if (event.consumer == kNewcomersConsumer) {
        Check(AnswerNewcomer(*connection_, kRabbitBookChannel, event.message, book_, Now()));
      } else {
        OnNote(std::move(event.message));
      }
      return;
    case Kind::kDone:
    case Kind::kDeclared: {
      std::deque<Answer>& answers = answers_[event.channel];
      if (answers.empty()) return;
      const Answer answer = std::move(answers.front());
      answers.pop_front();
      answer(event);
      return;
    }
    case Kind::kCancelled:
      deliveries_.Cancelled(event.consumer);
      return;
    case Kind::kChannelClosed:
      OnChannelClosed(event);
      return;
    default:
      return;
  }
}

// The side channel is closed by a look at a queue that is gone; what was asked behind that is
// asked again.
void RabbitIo::OnChannelClosed(const RabbitEvent& event) {
  if (event.channel != kRabbitSide || event.code != kRabbitNoQueue) {
    Check(Unavailable("rabbitmq closed a channel: " + event.text));
    return;
  }
  std::deque<Answer> unanswered = std::exchange(answers_[kRabbitSide], {});
  Check(connection_->OpenChannel(kRabbitSide));
  answers_[kRabbitSide].push_back([](const RabbitEvent&) {});
  for (const Answer& answer : unanswered) answer(event);
}

// Until something arrives, is asked for or falls due.
void RabbitIo::Wait() {
  Time until = connection_ == nullptr ? reconnect_at_ : Now() + options_.tick / 2;
  const auto left = std::chrono::ceil<milliseconds>(until - Now()).count();
  const int timeout_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 1000));
  std::array<pollfd, 2> fds{};
  fds[0] = {.fd = event_fd_, .events = POLLIN, .revents = 0};
  size_t count = 1;
  if (connection_ != nullptr) {
    fds[count++] = {.fd = connection_->fd(), .events = POLLIN, .revents = 0};
  }
  (void)poll(fds.data(), count, timeout_ms);  // interrupted is as good as woken
  if (fds[0].revents != 0) {
    uint64_t signals = 0;
    if (read(event_fd_, &signals, sizeof signals) < 0 && errno != EAGAIN) {
      LogError("waking the rabbitmq thread failed", {{"error", std::strerror(errno)}});
    }
    signaled_ = false;
  }
}

void RabbitIo::Deliver() {
  std::vector<std::string> topics = std::exchange(wake_later_, {});
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  for (const std::string& topic : topics) wake_(topic);
  MutexLock lock(shared_.mutex);
  shared_.stats.refused = sender_.refused();
  if (shared_.Settled() && sender_.idle()) shared_.settled.NotifyAll();
}

}  // namespace tidemill
