#include "bus/rabbit/rabbit_book.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/log.h"

namespace tidemill {
namespace {

constexpr std::string_view kWhat = "what", kKey = "key", kStamp = "stamp", kAge = "age",
                           kLasts = "lasts";
constexpr std::string_view kWrite = "write", kErase = "erase", kEraseAllBut = "erase all but",
                           kEndOfCopy = "end of copy";
constexpr size_t kNotesMax = 1 << 14;
constexpr size_t kBytesMax = 64 << 20;
constexpr int64_t kLongestMs = int64_t{1000} * 3600 * 24 * 365;

int64_t NumberOf(const RabbitMessage& message, std::string_view name) {
  const std::string_view text = message.Header(name);
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::max<int64_t>(0, number);
}

int64_t CeilMs(Duration d) {
  return std::chrono::ceil<milliseconds>(d).count();
}

}  // namespace

int64_t RabbitBook::NextStamp(int64_t wall_ms) {
  last_stamp_ = std::max(wall_ms, last_stamp_ + 1);
  return last_stamp_;
}

RabbitMessage RabbitBook::Told(std::string_view what, std::string_view key) const {
  RabbitMessage message;
  message.persistent = false;
  message.headers = {{std::string(kWhat), std::string(what)},
                     {std::string(kKey), std::string(key)}};
  return message;
}

RabbitMessage RabbitBook::Write(std::string_view key, std::string value, Duration lasts, Time now,
                                int64_t wall_ms) {
  RabbitMessage message = Told(kWrite, key);
  message.headers.emplace_back(kStamp, std::to_string(NextStamp(wall_ms)));
  message.headers.emplace_back(kLasts, std::to_string(CeilMs(lasts)));
  message.body = std::move(value);
  Take(message, now);
  return message;
}

RabbitMessage RabbitBook::Erase(std::string_view key, int64_t wall_ms) {
  RabbitMessage message = Told(kErase, key);
  message.headers.emplace_back(kStamp, std::to_string(NextStamp(wall_ms)));
  Take(message, Time{});
  return message;
}

RabbitMessage RabbitBook::EraseAllBut(const std::vector<std::string>& but, int64_t wall_ms) {
  RabbitMessage message = Told(kEraseAllBut, "");
  message.headers.emplace_back(kStamp, std::to_string(NextStamp(wall_ms)));
  for (const std::string& prefix : but) message.body += prefix + "\n";
  Take(message, Time{});
  return message;
}

void RabbitBook::Take(RabbitMessage message, Time now) {
  const std::string_view what = message.Header(kWhat);
  const std::string key(message.Header(kKey));
  const int64_t stamp = NumberOf(message, kStamp);
  if (what == kEndOfCopy) copied_ = true;
  if (what == kEraseAllBut) {
    std::erase_if(notes_, [&](const auto& one) {
      bool kept = one.second.stamp > stamp;
      for (size_t at = 0; at < message.body.size() && !kept;) {
        const size_t end = std::min(message.body.find('\n', at), message.body.size());
        kept = one.first.starts_with(std::string_view(message.body).substr(at, end - at));
        at = end + 1;
      }
      if (!kept) bytes_ -= one.second.value.size();
      return !kept;
    });
  }
  if (what != kWrite && what != kErase) return;
  const auto found = notes_.find(key);
  if (found != notes_.end() && found->second.stamp > stamp) return;
  if (found != notes_.end()) {
    bytes_ -= found->second.value.size();
    notes_.erase(found);
  }
  if (what == kErase) return;
  if (notes_.size() >= kNotesMax || bytes_ + message.body.size() > kBytesMax) {
    const size_t before = notes_.size();
    std::erase_if(notes_, [&](const auto& one) {
      if (one.second.until <= now) bytes_ -= one.second.value.size();
      return one.second.until <= now;
    });
    if (notes_.size() == before) {
      LogEvery(std::chrono::minutes(1), "rabbit-book", LogLevel::kError,
               "the book of the run is full; a note is not kept", {{"note", key}});
      return;
    }
  }
  const Duration age = milliseconds(std::min(NumberOf(message, kAge), kLongestMs));
  const Duration lasts = milliseconds(std::min(NumberOf(message, kLasts), kLongestMs));
  bytes_ += message.body.size();
  notes_[key] = {.value = std::move(message.body),
                 .stamp = stamp,
                 .written = now - age,
                 .until = now - age + lasts};
}

bool RabbitBook::TakeEndOfCopy() {
  return std::exchange(copied_, false);
}

const RabbitNote* RabbitBook::Find(std::string_view key, Time now) const {
  const auto found = notes_.find(key);
  return found != notes_.end() && found->second.until > now ? &found->second : nullptr;
}

void RabbitBook::ForEach(
    std::string_view prefix, Time now,
    const std::function<void(std::string_view rest, const RabbitNote&)>& visit) const {
  for (auto at = notes_.lower_bound(prefix); at != notes_.end(); ++at) {
    const std::string_view key = at->first;
    if (!key.starts_with(prefix)) break;
    if (at->second.until > now) visit(key.substr(prefix.size()), at->second);
  }
}

std::vector<RabbitMessage> RabbitBook::Copy(const std::string& queue, Time now) const {
  std::vector<RabbitMessage> copy;
  ForEach("", now, [&](std::string_view key, const RabbitNote& note) {
    RabbitMessage message = Told(kWrite, key);
    message.headers.emplace_back(kStamp, std::to_string(note.stamp));
    message.headers.emplace_back(kAge, std::to_string(CeilMs(now - note.written)));
    message.headers.emplace_back(kLasts, std::to_string(CeilMs(note.until - note.written)));
    message.body = note.value;
    message.key = queue;
    copy.push_back(std::move(message));
  });
  copy.push_back(Told(kEndOfCopy, ""));
  copy.back().key = queue;
  return copy;
}

}  // namespace tidemill
