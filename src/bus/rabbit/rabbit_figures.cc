#include "bus/rabbit/rabbit_figures.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "bus/topic_rules.h"

namespace tidemill {
namespace {

using FigureJson = nlohmann::json;

uint64_t NumberIn(const FigureJson& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string PairKey(std::string_view inbox, std::string_view client) {
  return std::string(inbox) + " " + std::string(client);
}

}  // namespace

std::string FiguresText(const RabbitFigures& figures) {
  FigureJson json = FigureJson::object();
  for (const auto& [topic, figure] : figures) {
    FigureJson one = FigureJson::object();
    if (figure.opened) {
      one["capacity"] = figure.options.capacity;
      one["lease_ms"] =
          static_cast<uint64_t>(std::chrono::ceil<milliseconds>(figure.options.lease).count());
      one["deliveries"] = figure.options.max_deliveries;
    }
    if (figure.leased > 0) one["leased"] = figure.leased;
    if (figure.parked > 0) one["delayed"] = figure.parked;
    if (figure.owed > 0) one["owed"] = figure.owed;
    if (figure.answers > 0) one["answers"] = figure.answers;
    if (!one.empty()) json[topic] = std::move(one);
  }
  return json.dump();
}

RabbitFigures ReadFigures(std::string_view text) {
  RabbitFigures figures;
  const FigureJson json = FigureJson::parse(text, nullptr, false);
  if (!json.is_object()) return figures;
  for (const auto& [topic, one] : json.items()) {
    if (!one.is_object()) continue;
    RabbitFigure figure;
    figure.options.capacity = NumberIn(one, "capacity");
    const uint64_t lease_ms = std::min<uint64_t>(NumberIn(one, "lease_ms"), uint64_t{1} << 40);
    figure.options.lease = milliseconds(lease_ms);
    figure.options.max_deliveries =
        static_cast<uint32_t>(std::min<uint64_t>(NumberIn(one, "deliveries"), UINT32_MAX));
    figure.opened = figure.options.capacity > 0 && CheckTopic(topic, figure.options).ok();
    figure.leased = NumberIn(one, "leased");
    figure.parked = NumberIn(one, "delayed");
    figure.owed = NumberIn(one, "owed");
    figure.answers = NumberIn(one, "answers");
    figures[topic] = figure;
  }
  return figures;
}

uint64_t DiedOf(const RabbitBook& book, std::string_view topic, Time now) {
  uint64_t died = 0;
  const std::string prefix = std::string(kDiedNote) + std::string(topic) + " ";
  book.ForEach(prefix, now, [&](std::string_view, const RabbitNote& note) {
    uint64_t count = 0;
    std::from_chars(note.value.data(), note.value.data() + note.value.size(), count);
    died += count;
  });
  return died;
}

std::vector<ListedTopic> ListedTopics(const RabbitBook& book, Time now) {
  std::map<std::string, TopicOptions> opened;
  book.ForEach(kFiguresNote, now, [&](std::string_view, const RabbitNote& note) {
    for (const auto& [topic, figure] : ReadFigures(note.value)) {
      if (figure.opened) opened.emplace(topic, figure.options);
    }
  });
  std::vector<ListedTopic> listed;
  for (const auto& [topic, options] : opened) {
    if (book.Find(std::string(kRemovedNote) + topic, now) == nullptr) {
      listed.push_back({topic, options});
    }
  }
  return listed;
}

void RabbitParked::Add(std::string_view topic, Time until) {
  auto found = until_.find(topic);
  if (found == until_.end()) found = until_.try_emplace(std::string(topic)).first;
  found->second.insert(until);
}

size_t RabbitParked::Count(std::string_view topic, Time now) {
  const auto found = until_.find(topic);
  if (found == until_.end()) return 0;
  found->second.erase(found->second.begin(), found->second.upper_bound(now));
  return found->second.size();
}

void RabbitParked::Forget(std::string_view topic) {
  const auto found = until_.find(topic);
  if (found != until_.end()) until_.erase(found);
}

void RabbitAnswers::Opened(std::string_view inbox, const RabbitBook& book, std::string_view self,
                           Time now) {
  book.ForEach(kFiguresNote, now, [&](std::string_view client, const RabbitNote& note) {
    if (client == self) return;
    const RabbitFigures figures = ReadFigures(note.value);
    const auto found = figures.find(inbox);
    if (found != figures.end()) (void)Heard(inbox, client, found->second.answers);
  });
}

uint64_t RabbitAnswers::Heard(std::string_view inbox, std::string_view client, uint64_t number) {
  uint64_t& known = heard_[PairKey(inbox, client)];
  if (number <= known) return 0;
  return number - std::exchange(known, number);
}

}  // namespace tidemill
