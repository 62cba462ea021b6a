#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace tidemill {
namespace {

// The failure that is reported: that of the lowest piece.
class FirstFailure {
 public:
  void Note(size_t piece, Status status) {
    if (status.ok()) return;
    MutexLock lock(mutex_);
    if (status_.ok() || piece < piece_) {
      piece_ = piece;
      status_ = std::move(status);
    }
    any_ = true;
  }
  bool any() const { return any_; }
  Status Take() {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  std::atomic<bool> any_{false};
  Mutex mutex_;
  size_t piece_ TM_GUARDED_BY(mutex_) = 0;
  Status status_ TM_GUARDED_BY(mutex_);
};

}  // namespace

Status InParallel(size_t pieces, int threads, const std::function<Status(size_t piece)>& work) {
  std::atomic<size_t> next{0};
  FirstFailure failure;
  const auto run = [&] {
    while (!failure.any()) {
      const size_t piece = next.fetch_add(1);
      if (piece >= pieces) return;
      failure.Note(piece, work(piece));
    }
  };
  const size_t helpers = std::min(pieces, static_cast<size_t>(std::max(threads, 1)));
  std::vector<std::thread> others;
  for (size_t i = 1; i < helpers; ++i) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
  return failure.Take();
}

}  // namespace tidemill
