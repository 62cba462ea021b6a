// What a run that serves shows people in files.
#pragma once

namespace tidemill {

class LiveWatch {
 public:
  virtual ~LiveWatch() = default;
  // Several times a second, by one thread: writes what has changed.
  virtual void Tick() = 0;
};

}  // namespace tidemill
