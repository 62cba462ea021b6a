// Carries out the operations on models, one after the other, on a thread of its own.
//
//   OpQueue -> ModelWorker -> ModelsPort -> result in the books -> whoever waits for the promise
//
// A model that is not in memory is brought back: its newest saved state, and everything behind that
// once more. So a server that was killed goes on where it was.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "tinker/books.h"
#include "tinker/folders.h"
#include "tinker/models_port.h"
#include "tinker/op_queue.h"

namespace tidemill {

struct WorkerOptions {
  explicit WorkerOptions(TinkerFolders where) : folders(std::move(where)) {}

  TinkerFolders folders;
  std::map<std::string, BaseModel> bases;
  Duration save_every = std::chrono::seconds(10);  // at least between two states of a model
  uint64_t again_bytes_max = uint64_t{64} << 20;   // of operations to be done again after a kill
  size_t models_max = 64;                          // in memory; others wait on the disk
  size_t ephemeral_max = 64;                       // samplers without a name that a session keeps
  // An operation is over. Called by the worker's thread.
  std::function<void(const std::string& model, uint64_t seq)> on_done;
  // The weights of a model's in-flight samplers are new. Called by the worker's thread.
  std::function<void(const ModelRow& model, std::shared_ptr<const Weights>)> on_inflight;
};

// The id of the promise for an operation, and back; nothing: it is no such id.
std::string PromiseOfOp(const std::string& model, uint64_t seq);
std::optional<OpQueue::Turn> OpOfPromise(std::string_view promise);
// {"error": .., "category": ..}: whose failure it was.
OpResult FailedOp(const Status& status);

class ModelWorker {
 public:
  // Everything given by reference must outlive it.
  ModelWorker(Books& books, OpQueue& queue, ModelsPort& models, const Clock& clock,
              WorkerOptions options);
  // Ends after the operation under way; `queue` is stopped.
  ~ModelWorker();

  // What is kept of models that are over goes before the next operation. Any thread.
  void Forget(const std::vector<std::string>& models);

 private:
  // Of a model in memory.
  struct Kept {
    Time saved{};
    Time used{};
    int64_t last_step = 0;  // its weights are as of this operation
  };

  void Run();
  void LetGo();
  Status Do(const OpQueue::Turn& turn);
  Result<OpResult> Carry(const ModelRow& row, const OpRow& op);
  Result<OpResult> Create(const ModelRow& row);
  Result<OpResult> Train(const ModelRow& row, const OpRow& op);
  Result<OpResult> Step(const ModelRow& row, const OpRow& op);
  Result<OpResult> SaveNamed(const ModelRow& row, const OpRow& op, bool training);
  Result<OpResult> SaveSampler(const ModelRow& row, const OpRow& op);
  Result<OpResult> LoadInto(const ModelRow& row, const OpRow& op);

  Status Bring(const ModelRow& row);
  Status Repeat(const ModelRow& row);
  Status MakeRoom(const std::string& but);
  Status SaveState(const std::string& model, int64_t seq);
  Status SaveIfDue(const ModelRow& row);
  Status LoadCheckpoint(const ModelRow& row, const std::string& path, bool optimizer);
  Status DropOldSamplers(const ModelRow& row);
  const BaseModel& BaseOf(const ModelRow& row) const;

  Books& books_;
  OpQueue& queue_;
  ModelsPort& models_;
  const Clock& clock_;
  const WorkerOptions options_;
  std::map<std::string, Kept> kept_;  // the thread's
  Mutex mutex_;
  std::vector<std::string> forget_ TM_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tidemill
