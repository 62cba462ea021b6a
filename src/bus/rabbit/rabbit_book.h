// The book of a run on RabbitMQ: notes by name, which every member of the run keeps in its memory.
// A broker has queues and no table that many read, so each note is told to all members, and a
// newcomer is told them all by one that is there. The book lives as long as any member does.
//
//   Write(note) -> exchange RUN/book -> queue of every member -> Take() -> Find(), ForEach()
//   newcomer -> queue RUN/newcomers -> one member -> Copy() -> queue of the newcomer
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bus/rabbit/rabbit_connection.h"
#include "core/clock.h"

namespace tidemill {

struct RabbitNote {
  std::string value;
  int64_t stamp = 0;  // of its writer; an older one does not replace it
  Time written{};     // when it was heard of here, less the age it had then
  Time until{};
};

// Belongs to one thread. Time is what the caller says.
class RabbitBook {
 public:
  // The message that tells all members, and the note here at once.
  RabbitMessage Write(std::string_view key, std::string value, Duration lasts, Time now,
                      int64_t wall_ms);
  RabbitMessage Erase(std::string_view key, int64_t wall_ms);
  // Every note but those whose names begin with one of `but`.
  RabbitMessage EraseAllBut(const std::vector<std::string>& but, int64_t wall_ms);

  // What a member was told.
  void Take(RabbitMessage message, Time now);
  // True once, after a copy has come to its end.
  bool TakeEndOfCopy();

  // null: there is none.
  const RabbitNote* Find(std::string_view key, Time now) const;
  // Notes whose names begin with `prefix`, by name; `visit` gets the rest of the name.
  void ForEach(std::string_view prefix, Time now,
               const std::function<void(std::string_view rest, const RabbitNote&)>& visit) const;
  // For a newcomer, to the queue named.
  std::vector<RabbitMessage> Copy(const std::string& queue, Time now) const;

 private:
  int64_t NextStamp(int64_t wall_ms);
  RabbitMessage Told(std::string_view what, std::string_view key) const;

  std::map<std::string, RabbitNote, std::less<>> notes_;
  size_t bytes_ = 0;
  int64_t last_stamp_ = 0;
  bool copied_ = false;
};

}  // namespace tidemill
