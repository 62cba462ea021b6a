// Whether a run may lie in a folder: its database and its lock file rely on locks that every
// machine which sees the folder sees as well. A folder on a network file system may have locks that
// hold on this machine alone, or none at all; a learner that moves to another node would then write
// beside the old one.
#pragma once

#include <string>

#include "core/status.h"

namespace tidemill {

// What is asked of the system.
class LockPort {
 public:
  virtual ~LockPort() = default;
  // The text of /proc/self/mountinfo; empty where the system has none.
  virtual std::string Mounts() = 0;
  // Ok: a lock that is held on the file is seen through another open file. kUnavailable: it is not,
  // or the file system has no locks.
  virtual Status SeesLock(const std::string& held_file) = 0;
};

LockPort& SystemLocks();

// `held_file`, in the folder, is locked by this process. kInvalid names the folder, its file system
// and what would be right.
Status CheckLocks(const std::string& folder, const std::string& held_file, LockPort& locks);

}  // namespace tidemill
