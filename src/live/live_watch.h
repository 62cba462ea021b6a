// Files in which a run that serves shows its state to people.
#pragma once

namespace tidemill {

class LiveWatch {
 public:
  virtual ~LiveWatch() = default;
  // Several times a second, by one thread: writes what has changed.
  virtual void Tick() = 0;
};

}  // namespace tidemill
