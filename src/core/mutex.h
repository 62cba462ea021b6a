// Locks that clang checks. Every field that a lock guards says so (TM_GUARDED_BY), every function
// that needs it held says so (TM_REQUIRES), and `make clang` refuses a program that breaks its word
// (-Wthread-safety). These are thin wrappers of the standard library's; other compilers see only
// those.
//
//   Mutex mutex_;
//   CondVar changed_;
//   bool stop_ TM_GUARDED_BY(mutex_) = false;
//   ..
//   MutexLock lock(mutex_);
//   changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stop_; });
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define TM_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TM_THREAD_ATTRIBUTE(x)
#endif

// The field is read and written only with the lock held.
#define TM_GUARDED_BY(lock) TM_THREAD_ATTRIBUTE(guarded_by(lock))
// The function, or lambda, is called only with the lock held.
#define TM_REQUIRES(...) TM_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TM_ACQUIRE(...) TM_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TM_ACQUIRE_SHARED(...) TM_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define TM_TRY_ACQUIRE(...) TM_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define TM_RELEASE(...) TM_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TM_RELEASE_GENERIC(...) TM_THREAD_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
#define TM_RETURN_CAPABILITY(lock) TM_THREAD_ATTRIBUTE(lock_returned(lock))
// For what the analysis cannot follow; say why.
#define TM_NO_THREAD_SAFETY_ANALYSIS TM_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace tidemill {

class TM_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() TM_ACQUIRE() { mutex_.lock(); }
  void Unlock() TM_RELEASE() { mutex_.unlock(); }
  bool TryLock() TM_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds the lock until it is destroyed. May let go of it in between.
class TM_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TM_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  // After TryLock().
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt) TM_REQUIRES(mutex)
      : lock_(mutex.mutex_, adopt) {}
  ~MutexLock() TM_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() TM_RELEASE() { lock_.unlock(); }
  void Lock() TM_ACQUIRE() { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// Waits let go of the lock meanwhile and hold it again when they return. Waits without a condition
// may end for no reason.
class CondVar {
 public:
  void NotifyOne() { variable_.notify_one(); }
  void NotifyAll() { variable_.notify_all(); }

  void Wait(MutexLock& lock) { variable_.wait(lock.lock_); }
  template <class Holds>
  void Wait(MutexLock& lock, Holds holds) {
    variable_.wait(lock.lock_, holds);
  }
  template <class Time>
  void WaitFor(MutexLock& lock, Time time) {
    variable_.wait_for(lock.lock_, time);
  }
  // Whether the condition holds; false after `time`.
  template <class Time, class Holds>
  bool WaitFor(MutexLock& lock, Time time, Holds holds) {
    return variable_.wait_for(lock.lock_, time, holds);
  }
  template <class Holds>
  bool WaitUntil(MutexLock& lock, std::chrono::steady_clock::time_point time, Holds holds) {
    return variable_.wait_until(lock.lock_, time, holds);
  }

 private:
  std::condition_variable variable_;
};

// Many may read at once.
class TM_THREAD_ATTRIBUTE(capability("mutex")) SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void Lock() TM_ACQUIRE() { mutex_.lock(); }
  void Unlock() TM_RELEASE() { mutex_.unlock(); }
  void LockShared() TM_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void UnlockShared() TM_RELEASE_GENERIC() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class TM_THREAD_ATTRIBUTE(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) TM_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex.LockShared();
  }
  ~ReaderLock() TM_RELEASE_GENERIC() { mutex_.UnlockShared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class TM_THREAD_ATTRIBUTE(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) TM_ACQUIRE(mutex) : mutex_(mutex) { mutex.Lock(); }
  ~WriterLock() TM_RELEASE() { mutex_.Unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace tidemill
