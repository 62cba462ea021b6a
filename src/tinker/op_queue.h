// Whose operation is next: of each model strictly in the order of its numbers, of all models in
// turns.
//
//   Add(model, seq), in any order -> Take() -> the worker does it -> Done(model)
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/mutex.h"
#include "core/status.h"

namespace tidemill {

// Thread-safe. Knows numbers alone: what is to be done lies in the books.
class OpQueue {
 public:
  struct Turn {
    std::string model;
    uint64_t seq = 0;
  };

  explicit OpQueue(size_t waiting_max_a_model) : waiting_max_(waiting_max_a_model) {}

  // A model whose next operation has this number. One that is known already stays as it is.
  void AddModel(const std::string& model, uint64_t next);
  void DropModel(const std::string& model);
  // Whether there is room for it. kFull: too many of the model wait, for a number that did not come
  // perhaps. kNotFound: no such model.
  Status Room(const std::string& model, uint64_t seq) const;
  // A number that was done or waits already, or of no model, changes nothing.
  void Add(const std::string& model, uint64_t seq);
  // Waits for something to do; nothing: Stop was called. No other of the model is given away until
  // Done.
  std::optional<Turn> Take();
  void Done(const std::string& model);
  void Stop();

  size_t waiting() const;

 private:
  struct Line {
    uint64_t next = 0;
    std::set<uint64_t> waiting;
    bool busy = false;    // somebody does its `next`
    bool listed = false;  // in ready_
  };
  void List(const std::string& model, Line& line) TM_REQUIRES(mutex_);

  const size_t waiting_max_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Line> lines_ TM_GUARDED_BY(mutex_);
  std::deque<std::string> ready_ TM_GUARDED_BY(mutex_);  // whose next waits, in turns
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
};

}  // namespace tidemill
