// Demonstrations for supervised training: a JSONL file, one JSON object a line.
//
//   {"prompt": "..", "completion": ".."}             text; "special": true: special tokens in it
//   are meant
//   {"prompt_ids": [..], "completion_ids": [..]}     token ids, taken as they are;
//   "completion_mask": [..]: 1 for each id of the completion that is trained on, 0 for the others
//
// So the episodes that `tidemill runs export` writes are demonstrations. Other keys are ignored.
// Empty lines are skipped. FILE.zst is decompressed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "learner/packing.h"
#include "model/tokenizer.h"

namespace tidemill {

struct Demonstration {
  std::string prompt;
  std::string completion;
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> completion_ids;
  std::vector<uint8_t> completion_mask;  // as many as ids; empty: all are trained on
  bool text = true;                      // prompt and completion count, else the ids
  bool special = false;                  // special tokens in the text are recognised
};

// One line. kInvalid names the key.
Result<Demonstration> ParseDemonstration(std::string_view line);

struct EncodeOptions {
  const Tokenizer* tokenizer = nullptr;  // required for text
  std::vector<int32_t> end_ids;  // text is ended with the first unless it ends with one of them
  bool append_end = true;
  int64_t vocabulary = 0;
  int64_t context = 0;  // most tokens
  bool train_prompt = false;
};

// The sequence to train on: the completion's tokens are masked in, the prompt's not. kInvalid:
// nothing to predict from or to predict, an id outside the vocabulary, more tokens than the context
// has.
Result<TrainSequence> EncodeDemonstration(const Demonstration& demonstration,
                                          const EncodeOptions& options);

// The whole file. kInvalid: "FILE:14: .."; after 10 bad lines it gives up and says so.
Result<std::vector<TrainSequence>> ReadDemonstrations(const std::string& path,
                                                      const EncodeOptions& options);

}  // namespace tidemill
