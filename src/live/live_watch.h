// What watches a run that serves: hears the run's journal, and is called now and then to do what
// takes time.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tidemill {

class LiveWatch {
 public:
  virtual ~LiveWatch() = default;
  // An entry of the run's journal.
  virtual void Take(std::string_view kind, const std::map<std::string, double>& numbers,
                    const std::map<std::string, std::string>& words) = 0;
  // Several times a second, by one thread.
  virtual void Tick() = 0;
};

}  // namespace tidemill
