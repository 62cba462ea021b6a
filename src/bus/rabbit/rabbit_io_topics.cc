// The part of RabbitIo that knows how topics are: by asking the broker, and by the run's book.
#include <algorithm>
#include <utility>

#include "bus/rabbit/rabbit_channels.h"
#include "bus/rabbit/rabbit_io.h"
#include "bus/rabbit/rabbit_member.h"
#include "core/log.h"

namespace tidemill {
namespace {

constexpr Duration kRelistEvery = std::chrono::seconds(2);
constexpr Duration kFiguresAtLeastEvery = std::chrono::seconds(3);
constexpr int kUnsureMax = 8;
constexpr int kMissingMax = 2;  // the note that it was removed may be on its way

}  // namespace

// One round of looks at a time: it ends with an answer on the main channel, behind every delivery
// that the queues had sent before they were asked.
void RabbitIo::SendLooks() {
  if (looking_) return;
  const Time now = Now();
  for (auto& [name, topic] : shared_.local.topics()) {
    const bool due = (topic.ours || topic.listeners > 0) && now >= topic.next_tick;
    if (!topic.open || topic.opening > 0 || !(due || topic.tick_now)) continue;
    topic.tick_now = false;
    topic.next_tick =
        now + std::chrono::duration_cast<Duration>(options_.tick * (0.75 + random_.Uniform() / 2));
    Look look = {.topic = name,
                 .generation = topic.generation,
                 .activity = activity_[name],
                 .quiet = on_its_way_[name] == 0};
    Check(connection_->Declare(kRabbitSide, {.name = names_.Topic(name), .passive = true}));
    ++looks_asked_;
    answers_[kRabbitSide].push_back(
        [this, look](const RabbitEvent& event) { OnLook(look, event); });
  }
  looking_ = looks_asked_ > 0;
}

void RabbitIo::OnLook(Look look, const RabbitEvent& event) {
  if (event.kind == RabbitEvent::Kind::kChannelClosed) {
    // The first of those unanswered is the one that is gone; the others were not looked at.
    const bool first = event.text.find("'" + names_.Topic(look.topic) + "'") != std::string::npos;
    if (first) {
      OnMissing(look.topic);
    } else {
      MutexLock lock(shared_.mutex);
      if (ViewedTopic* topic = shared_.local.Find(look.topic); topic) topic->tick_now = true;
    }
  } else {
    missing_.erase(look.topic);
    look.ready = event.messages;
    looks_.push_back(std::move(look));
  }
  if (--looks_asked_ > 0) return;
  Check(connection_->Prefetch(kRabbitMain, 1));
  answers_[kRabbitMain].push_back([this](const RabbitEvent&) { OnLooks(); });
}

void RabbitIo::OnLooks() {
  looking_ = false;
  MutexLock lock(shared_.mutex);
  for (const Look& look : std::exchange(looks_, {})) TakeLook(look);
}

void RabbitIo::TakeLook(const Look& look) {
  ViewedTopic* topic = shared_.local.Find(look.topic);
  if (topic == nullptr || topic->generation != look.generation || !topic->open) return;
  // Whoever asked for nothing hears of it nevertheless, and may ask.
  if (look.ready > 0 && topic->listeners > 0 && topic->Wanted() == 0) WakeLater(look.topic);
  const bool sure = look.quiet && activity_[look.topic] == look.activity;
  int& unsure = unsure_[look.topic];
  if (!sure && ++unsure < kUnsureMax) {
    topic->tick_now = true;
    return;
  }
  unsure = 0;
  uint64_t leased = 0, parked = parked_.Count(look.topic, clock_.Now());
  for (const auto& [client, figures] : others_) {
    const auto found = figures.find(look.topic);
    if (found == figures.end()) continue;
    leased += found->second.leased;
    parked += found->second.parked;
  }
  const size_t mine = deliveries_.Count(look.topic);
  const size_t waiting = std::min(mine, topic->fetched.size());
  topic->size = static_cast<int64_t>(look.ready + mine + leased + parked);
  topic->heard = true;
  topic->depth.ready = look.ready + parked + waiting;
  topic->depth.leased = mine - waiting + leased;
  topic->depth.owed = static_cast<size_t>(std::max<int64_t>(0, topic->owed));
  topic->depth.dead = DiedOf(book_, look.topic, Now());
}

// Its queue is gone: somebody removed the topic and said so, or what was in it is lost.
void RabbitIo::OnMissing(const std::string& name) {
  MutexLock lock(shared_.mutex);
  ViewedTopic* topic = shared_.local.Find(name);
  if (topic == nullptr || !topic->open || topic->opening > 0) return;
  const bool removed = book_.Find(std::string(kRemovedNote) + name, Now()) != nullptr;
  if (!removed && topic->ours && ++missing_[name] < kMissingMax) {
    topic->tick_now = true;
    return;
  }
  missing_.erase(name);
  if (removed || !topic->ours) {
    shared_.local.Gone(*topic);
    return;
  }
  LogWarn("the queue of a topic was deleted; it is created again", {{"topic", name}});
  shared_.local.OpenAgain();
  LostContent();
}

// Who waits for something to come of what was there sends it again.
void RabbitIo::LostContent() {
  ++shared_.losses;
  for (const auto& [name, other] : shared_.local.topics()) {
    if (other.listeners > 0) WakeLater(name);
  }
}

void RabbitIo::WriteNote(std::string_view key, std::string value, Duration lasts) {
  RabbitMessage message = book_.Write(key, std::move(value), lasts, Now(), wall_.WallMs());
  message.exchange = names_.Book();
  Check(connection_->Publish(kRabbitBookChannel, message));
}

// When they changed, and from time to time so that they are known to be true.
void RabbitIo::WriteFigures() {
  const Time now = Now();
  if (now < next_figures_) return;
  next_figures_ = now + options_.tick;
  RabbitFigures figures;
  for (const auto& [name, topic] : shared_.local.topics()) {
    if (!topic.open) continue;
    RabbitFigure figure = {.opened = topic.ours, .options = topic.options};
    figure.leased = deliveries_.Count(name);
    figure.parked = parked_.Count(name, clock_.Now());
    figure.owed = static_cast<uint64_t>(std::max<int64_t>(0, topic.owed));
    figures[name] = figure;
  }
  for (const auto& [inbox, count] : answers_given_) figures[inbox].answers = count;
  std::string text = FiguresText(figures);
  if (text == figures_written_ && now < figures_lapse_) return;
  figures_written_ = text;
  figures_lapse_ = now + kFiguresAtLeastEvery;
  WriteNote(std::string(kFiguresNote) + client_, std::move(text), kFiguresLast);
}

// Somebody who looks at the run wants to know what is held here.
void RabbitIo::OnHeldQuestion(const RabbitMessage& question) {
  RabbitMessage answer;
  answer.key = question.Header("queue");
  answer.persistent = false;
  if (answer.key.empty()) return;
  const std::string topic(question.Header("topic"));
  deliveries_.ForEach([&](const RabbitDelivery& delivery) {
    if (delivery.topic != topic) return;
    answer.headers = {{"what", std::string(kHeldBody)}};
    answer.body = delivery.message.body;
    Check(connection_->Publish(kRabbitBookChannel, answer));
  });
  answer.headers = {{"what", std::string(kHeldEnd)}, {"member", client_}};
  answer.body.clear();
  Check(connection_->Publish(kRabbitBookChannel, answer));
}

void RabbitIo::OnNote(RabbitMessage message) {
  if (message.Header("what") == kHeldQuestion) return OnHeldQuestion(message);
  const std::string key(message.Header("key"));
  book_.Take(std::move(message), Now());
  if (!key.starts_with(kFiguresNote)) return;
  const std::string_view client = std::string_view(key).substr(kFiguresNote.size());
  const RabbitNote* note = book_.Find(key, Now());
  if (client == client_) return;
  if (note == nullptr) {
    others_.erase(std::string(client));
    return;
  }
  RabbitFigures& figures = others_[std::string(client)] = ReadFigures(note->value);
  HearAnswers(client, figures);
  next_refresh_ = std::min(next_refresh_, Now() + options_.tick);
}

void RabbitIo::HearAnswers(std::string_view client, const RabbitFigures& figures) {
  MutexLock lock(shared_.mutex);
  for (const auto& [name, figure] : figures) {
    if (figure.answers == 0) continue;
    const auto answers = static_cast<int64_t>(heard_.Heard(name, client, figure.answers));
    ViewedTopic* inbox = shared_.local.Find(name);
    if (inbox != nullptr && inbox->ours) inbox->owed -= std::min(inbox->owed, answers);
  }
}

void RabbitIo::RefreshTopics() {
  const Time now = Now();
  if (now < next_refresh_) return;
  next_refresh_ = now + kRelistEvery;
  // Those that left without a word, too.
  std::erase_if(others_, [&](const auto& one) {
    return book_.Find(std::string(kFiguresNote) + one.first, now) == nullptr;
  });
  shared_.local.HeardAll(ListedTopics(book_, now));
}

}  // namespace tidemill
