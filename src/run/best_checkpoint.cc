#include "run/best_checkpoint.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "core/files.h"
#include "core/log.h"
#include "run/run_scalars.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

}  // namespace

void BestCheckpoint::Take(const JournalEntry& entry) {
  const auto name = entry.words.find("name");
  const auto rate = entry.numbers.find("pass_rate");
  const auto steps = entry.numbers.find(policy_.empty() ? "step" : "policy_step");
  const auto policy = entry.words.find("policy");
  if (steps == entry.numbers.end()) return;
  if ((policy == entry.words.end() ? "" : policy->second) != policy_) return;
  if (entry.kind == "checkpoint") {
    const auto found = waiting_.find(static_cast<int64_t>(steps->second));
    if (found != waiting_.end()) Measured(found->first, found->second);
    return;
  }
  if (entry.kind != "eval" || name == entry.words.end() || rate == entry.numbers.end()) return;
  const EvalCurve at = EvalCurveOf(name->second, static_cast<int64_t>(steps->second));
  if (at.curve == "eval") Measured(at.step, rate->second);
}

void BestCheckpoint::Measured(int64_t step, double pass_rate) {
  constexpr size_t kWaitingMax = 16;
  const std::string checkpoint = fmt::format("step-{:08}", step);
  std::error_code error;
  if (!fs::is_directory(folder_ + "/" + checkpoint, error)) {
    waiting_[step] = pass_rate;
    if (waiting_.size() > kWaitingMax) waiting_.erase(waiting_.begin());
    return;
  }
  waiting_.erase(step);
  const std::string link = folder_ + "/" + kBestCheckpoint, note = link + ".txt";
  const Result<std::string> before = ReadFileBounded(note, 64);
  const bool there = fs::is_directory(link, error);
  if (there && before.ok() && std::strtod(before->c_str(), nullptr) > pass_rate) return;
  // A link is replaced by renaming another over it.
  const std::string made = link + ".new";
  fs::remove(made, error);
  fs::create_directory_symlink(checkpoint, made, error);
  if (!error) fs::rename(made, link, error);
  Status status = error ? Unavailable(link + ": " + error.message()) : Ok();
  if (status.ok()) status = WriteFileAtomically(note, fmt::format("{}\n", pass_rate));
  if (!status.ok()) LogOnce("best checkpoint", LogLevel::kWarn, status.message());
}

}  // namespace tidemill
