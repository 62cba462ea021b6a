// Boxes that stay for an episode: files, variables and background processes are there at its next
// call of the tool "bash". Unlike a kept box one of these is part of the episode: losing it through
// us means repeating the episode.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "core/clock.h"
#include "core/ids.h"
#include "core/mutex.h"
#include "tools/box/box.h"

namespace tidemill {

struct ShellBox {
  std::unique_ptr<Box> box;  // null: the agent brought it down; its next call gets a new one
  // The workspace as far as it is known: hash and mode by path.
  std::map<std::string, std::string> known;
};

// Thread-safe. A box in use counts as well.
class ShellBoxes {
 public:
  ShellBoxes(size_t capacity, Duration idle_max) : capacity_(capacity), idle_max_(idle_max) {}

  // Room for one more. False: `capacity` are in use, none of them idle for too long.
  bool Reserve(Time now);
  // Gives the room back: the box was not opened, or was brought to its end.
  void Release();
  // The episode's, which is in use until Keep or Release. Null: it has none here.
  std::unique_ptr<ShellBox> Take(const TrajectoryKey& episode);
  void Keep(const TrajectoryKey& episode, std::unique_ptr<ShellBox> shell, Time now);
  // Closes it; nothing where it is in use.
  void Drop(const TrajectoryKey& episode);
  void DropAll();
  size_t size() const;

 private:
  struct Kept {
    std::unique_ptr<ShellBox> shell;
    Time since;
  };

  const size_t capacity_;
  const Duration idle_max_;
  mutable Mutex mutex_;
  std::map<std::string, Kept> kept_ TM_GUARDED_BY(mutex_);  // by TrajectoryKey::ToString
  size_t reserved_ TM_GUARDED_BY(mutex_) = 0;               // kept and in use
};

}  // namespace tidemill
