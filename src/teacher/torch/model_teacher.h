// A teacher that is a model in this process: one from another directory, or the policy itself as it
// was published last.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/clock.h"
#include "core/metrics.h"
#include "model/tokenizer.h"
#include "model/torch/model.h"
#include "teacher/teacher_port.h"

namespace tidemill {

// The weights to score with from here on; never null.
using TeacherWeights = std::function<std::shared_ptr<const PolicyWeights>()>;

struct ModelTeacherOptions {
  int threads = 1;               // libtorch's, in the teacher's thread
  int64_t batch_tokens = 4096;   // run through the model at once; a longer sequence alone
  size_t max_outstanding = 256;  // calls not yet answered
  bool bfloat16 = false;         // multiply matrices in bfloat16 (GPU)
};

// Of the spans of each call. Tokens that the model cannot read (outside its vocabulary, beyond its
// context), and all that follow them, are not known. kInternal: what libtorch threw.
Result<std::vector<TokenLogprobsOf>> ScoreCalls(const PolicyWeights& weights,
                                                const std::vector<TeacherCall>& calls,
                                                bool bfloat16 = false);

// Weights of a directory whose tokens are those of `tokens`. kInvalid: they are not, or the model
// has too small a vocabulary or a context of fewer than `context` tokens; says what differs.
Result<std::shared_ptr<const PolicyWeights>> LoadTeacher(const std::string& dir,
                                                         const LoadOptions& load,
                                                         const Tokenizer& tokens, int64_t context);

class ModelTeacher final : public TeacherPort {
 public:
  // `clock` must outlive it; `weights` is called from the teacher's thread.
  ModelTeacher(TeacherWeights weights, const Clock& clock, ModelTeacherOptions options);
  // Ends the thread after the batch under way; what is queued behind is not scored.
  ~ModelTeacher() override;

  void Submit(TeacherCall call) override;
  Mailbox<TeacherDone>& events() override;
  const BusyMeter& busy() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
