// Three breaches of what src/core/mutex.h says, and the same done right. clang must warn of the
// first three and of nothing else (see CMakeLists.txt); this file is part of no program.
#include "core/mutex.h"

namespace tidemill {

class Account {
 public:
  int Unlocked() { return balance_; }
  void CallsWithoutTheLock() { Add(1); }
  void UnlocksTooSoon() {
    MutexLock lock(mutex_);
    lock.Unlock();
    balance_ = 0;
  }

  int Locked() {
    MutexLock lock(mutex_);
    Add(1);
    return balance_;
  }
  void Waits() {
    MutexLock lock(mutex_);
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return balance_ > 0; });
    lock.Unlock();
    lock.Lock();
    balance_ = 0;
  }
  int Read() {
    ReaderLock lock(shared_mutex_);
    return shared_;
  }
  void Write() {
    WriterLock lock(shared_mutex_);
    shared_ = 1;
  }

 private:
  void Add(int more) TM_REQUIRES(mutex_) { balance_ += more; }

  Mutex mutex_;
  CondVar changed_;
  int balance_ TM_GUARDED_BY(mutex_) = 0;
  SharedMutex shared_mutex_;
  int shared_ TM_GUARDED_BY(shared_mutex_) = 0;
};

}  // namespace tidemill
