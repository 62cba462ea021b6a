// The model's files for workers that do not see the learner's folders.
//
//   learner: ListModelFiles -> sheet; once a worker asks, ModelShelf puts them on the broker
//   worker:  sheet -> BringModel -> its own folder where that has the same files, else a cache
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/object_place.h"
#include "core/status.h"
#include "core/work_queue.h"
#include "run/model_file.h"

namespace tidemill {

// The folders that a config names; empty: none.
struct ModelFolders {
  std::string model;
  std::string tokenizer;
  std::string adapter;
};

// The files of the folders that a worker reads: config, tokenizer and template; the tensors too if
// `with_weights`, and always those of the adapter. Reads all of it.
Result<std::vector<ModelFile>> ListModelFiles(const ModelFolders& folders, bool with_weights);

// The learner's end. Thread-safe.
class ModelShelf {
 public:
  using Open = std::function<Result<std::unique_ptr<ObjectPlace>>()>;
  ModelShelf(ModelFolders folders, std::vector<ModelFile> files, Open open);

  // Somebody asked: puts the files there on a thread of its own, unless they were put there within
  // the last hours. Failures are warnings; the next one who asks makes it try again.
  void Want();

 private:
  Status Put();

  const ModelFolders folders_;
  const std::vector<ModelFile> files_;
  const Open open_;
  std::atomic<bool> busy_{false};
  std::atomic<int64_t> put_ms_{0};  // wall clock; 0: never
  RealClock clock_;
  WorkQueue<int> queue_{1};  // last: its thread uses all of the above
};

// The worker's end. Folders of `folders` that do not have exactly the files listed are replaced by
// folders below `cache`, which are filled from the place; what a broken transfer left there is kept
// and continued. `ask` is called now and then while something is missing; not ok ends the waiting.
// kCorrupt: a file came that is not the one listed.
Status BringModel(const std::vector<ModelFile>& files, ObjectPlace& place, const std::string& cache,
                  const std::function<Status()>& ask, ModelFolders& folders);

// Where a user's programs keep what can be fetched again: ~/.cache/tidemill/models, or as
// XDG_CACHE_HOME says.
std::string ModelCache();

}  // namespace tidemill
