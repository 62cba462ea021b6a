// Short texts of a run on its broker, by name, each for a time: the run sheet, and what workers ask
// of the learner.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

// Each call waits for the broker. Belongs to one thread.
class NoteBoard {
 public:
  virtual ~NoteBoard() = default;
  // In place of an earlier one; lasts `time`.
  virtual Status Put(std::string_view name, std::string_view text, Duration time) = 0;
  // None: there is no such note.
  virtual Result<std::optional<std::string>> Get(std::string_view name) = 0;
  virtual Status Erase(std::string_view name) = 0;
};

}  // namespace tidemill
