// The built-in task families and the generators of labelled cases, as the program offers them:
// `tasks generate`, `tasks model`, `judge cases` and `judge model`. This header is all that src/
// sees of testbeds/; the same order always makes the same files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tasks/import/task_import.h"

namespace tidemill {

struct FamilyOrder {
  std::string family;  // one of TaskFamilies()
  uint64_t count = 0;
  uint64_t seed = 0;
  bool heldout = false;  // shares no behaviour with what is not held out
  bool demonstrations = false;
  // cfunc
  std::vector<int> levels;  // of difficulty; empty: a mix
  double second_turn_share = 0.1;
  double slip_share = 0;
  // project
  uint64_t projects = 1;
  uint64_t change_after = 0;
  uint64_t project_demonstrations = 0;  // 0: as many as tasks
  int cases_most = 8;
};

struct Demonstration {
  std::string prompt;
  std::string completion;
};

struct FamilySet {
  std::vector<v1::Task> tasks;
  std::optional<uint64_t> behaviours;             // cfunc, pyfunc: how many of them differ
  std::map<std::string, uint64_t> by_difficulty;  // cfunc
  std::vector<Demonstration> demonstrations;      // cfunc, project: if asked for
  std::vector<ImportedTask> solved;               // pyfunc: with their solutions
};

std::vector<std::string> TaskFamilies();
// kInvalid: an order no set can meet, in words.
Result<FamilySet> GenerateFamily(const FamilyOrder& order);
// JSONL of {"prompt": .., "completion": .., "special": true}.
Status WriteDemonstrations(const std::string& path, const std::vector<Demonstration>& written);

// A Qwen2 decoder with tied embeddings, small enough to learn a family on a CPU.
struct FamilyModelShape {
  int hidden_size = 64;
  int intermediate_size = 192;
  int layers = 3;
  int heads = 4;
  int context = 128;  // longest sequence, in tokens
};

// The families that have a model of their own.
std::vector<std::string> ModelFamilies();
// Writes all of a model directory but the weights, and gives the number of parameters.
Result<int64_t> WriteFamilyModel(const std::string& family, const FamilyModelShape& shape,
                                 const std::string& folder);

struct JudgeCaseOptions {
  uint64_t count = 1000;
  uint64_t seed = 1;
  double misleading = 0.3;  // share whose words point the wrong way
  double instructing = 0;   // share that tries to tell the judge what to say
  std::string task = "next_state";
  // {"prompt", "completion"} of the compact template, for training. Some ask for a number in the
  // texts instead of the verdict.
  bool demonstrations = false;
};

// Labelled cases for judges, JSONL.
Status WriteJudgeCases(const JudgeCaseOptions& options, const std::string& path);

struct JudgeModelShape {
  int64_t width = 64;
  int64_t layers = 3;
  int64_t heads = 4;
  int64_t context = 512;
  size_t vocabulary = 1000;
};

// Writes tokenizer and config of a model that becomes a judge into `folder`, which is made. The
// tokenizer is learned from cases of both tasks.
Status WriteJudgeModel(const JudgeModelShape& shape, uint64_t seed, const std::string& folder);

}  // namespace tidemill
