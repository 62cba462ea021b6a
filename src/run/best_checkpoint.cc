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
  const auto steps = entry.numbers.find("step");
  if (name == entry.words.end() || rate == entry.numbers.end() || steps == entry.numbers.end())
    return;
  const EvalCurve at = EvalCurveOf(name->second, static_cast<int64_t>(steps->second));
  const std::string checkpoint = fmt::format("step-{:08}", at.step);
  std::error_code error;
  if (at.curve != "eval" || !fs::is_directory(folder_ + "/" + checkpoint, error)) return;
  const std::string link = folder_ + "/" + kBestCheckpoint, note = link + ".txt";
  const Result<std::string> before = ReadFileBounded(note, 64);
  const bool there = fs::is_directory(link, error);
  if (there && before.ok() && std::strtod(before->c_str(), nullptr) > rate->second) return;
  // A link is replaced by renaming another over it.
  const std::string made = link + ".new";
  fs::remove(made, error);
  fs::create_directory_symlink(checkpoint, made, error);
  if (!error) fs::rename(made, link, error);
  Status status = error ? Unavailable(link + ": " + error.message()) : Ok();
  if (status.ok()) status = WriteFileAtomically(note, fmt::format("{}\n", rate->second));
  if (!status.ok()) LogOnce("best checkpoint", LogLevel::kWarn, status.message());
}

}  // namespace tidemill
