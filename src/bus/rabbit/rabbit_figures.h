// What a broker does not tell of a run's topics and its members tell each other: who opened a
// topic and how, how many messages a member holds or has delayed, how many answers it gave. Each
// member writes one note into the book and reads those of the others.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bus/client_view.h"
#include "bus/rabbit/rabbit_book.h"

namespace tidemill {

inline constexpr std::string_view kFiguresNote = "figures:";  // .. of a client
inline constexpr std::string_view kDiedNote = "died:";        // .. on TOPIC, seen by a client
inline constexpr std::string_view kRemovedNote = "removed:";  // .. is TOPIC, on purpose
inline constexpr std::string_view kParkingNote = "parking:";  // .. is a queue that delays
inline constexpr Duration kFiguresLast = std::chrono::seconds(10);

// Of one topic, by one member.
struct RabbitFigure {
  bool opened = false;  // by this member, with these options
  TopicOptions options = {};
  uint64_t leased = 0;
  uint64_t parked = 0;   // delayed
  uint64_t owed = 0;     // answers to this inbox, of which it is the owner
  uint64_t answers = 0;  // given to this inbox so far
};
using RabbitFigures = std::map<std::string, RabbitFigure, std::less<>>;  // by topic

std::string FiguresText(const RabbitFigures& figures);
// What cannot be read is left out.
RabbitFigures ReadFigures(std::string_view text);

// How many messages of the topic died, by all members there were in a day.
uint64_t DiedOf(const RabbitBook& book, std::string_view topic, Time now);
// Every topic of the run, as its members opened it.
std::vector<ListedTopic> ListedTopics(const RabbitBook& book, Time now);

// Messages that this member delayed, until when. Belongs to one thread.
class RabbitParked {
 public:
  void Add(std::string_view topic, Time until);
  size_t Count(std::string_view topic, Time now);
  void Forget(std::string_view topic);

 private:
  std::map<std::string, std::multiset<Time>, std::less<>> until_;
};

// What an inbox of this member is owed, as answers come: each answerer numbers those it gives to an
// inbox, and says the number with each answer and in its figures, whichever is heard first.
class RabbitAnswers {
 public:
  // From now on: what was answered before is nothing to this inbox.
  void Opened(std::string_view inbox, const RabbitBook& book, std::string_view self, Time now);
  // How many answers the number says that were not known.
  uint64_t Heard(std::string_view inbox, std::string_view client, uint64_t number);

 private:
  std::map<std::string, uint64_t, std::less<>> heard_;  // "INBOX CLIENT"
};

}  // namespace tidemill
