#include "run/run_journal.h"

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

// Whole numbers below it are exact as a double, and are written as whole numbers.
constexpr double kWholeMax = 9007199254740992.0;

}  // namespace

std::string JournalEntry::ToJson() const {
  nlohmann::ordered_json json;
  json["time_ms"] = at_ms;
  json["kind"] = kind;
  for (const auto& [key, word] : words) json[key] = word;
  for (const auto& [key, number] : numbers) {
    if (!std::isfinite(number)) {
      json[key] = nullptr;
    } else if (number == std::trunc(number) && std::abs(number) < kWholeMax) {
      json[key] = static_cast<int64_t>(number);
    } else {
      json[key] = number;
    }
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<JournalEntry> JournalEntry::Parse(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  JournalEntry entry;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) entry.words[key] = value.get<std::string>();
    if (value.is_number()) entry.numbers[key] = value.get<double>();
  }
  const auto kind = entry.words.find("kind");
  if (kind == entry.words.end()) return std::nullopt;
  entry.kind = kind->second;
  entry.words.erase(kind);
  if (const auto time = entry.numbers.find("time_ms"); time != entry.numbers.end()) {
    entry.at_ms = static_cast<int64_t>(time->second);
    entry.numbers.erase(time);
  }
  return entry;
}

void RunJournal::Record(std::string_view kind, const Numbers& numbers, const Words& words) {
  JournalEntry entry{clock_.WallMs(), std::string(kind), numbers, words};
  MutexLock lock(mutex_);
  if (entries_.size() == kMost) {
    entries_.pop_front();
    ++dropped_;
  }
  entries_.push_back(std::move(entry));
}

std::vector<JournalEntry> RunJournal::TakeAll() {
  MutexLock lock(mutex_);
  std::vector<JournalEntry> taken(std::make_move_iterator(entries_.begin()),
                                  std::make_move_iterator(entries_.end()));
  entries_.clear();
  if (dropped_ > 0) {
    taken.push_back({clock_.WallMs(),
                     "warning",
                     {{"entries", static_cast<double>(dropped_)}},
                     {{"what", "journal entries were dropped"}}});
    dropped_ = 0;
  }
  return taken;
}

}  // namespace tidemill
