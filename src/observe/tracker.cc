#include "observe/tracker.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/child_process.h"
#include "core/log.h"
#include "core/shipped_files.h"

namespace tidemill {

Result<std::unique_ptr<Tracker>> Tracker::Start(const TrackConfig& config, const std::string& run) {
  std::vector<std::string> words = {config.python, "-m",        "tidemill.track", run,
                                    "--follow",    "--project", config.project};
  bool any = false;
  for (const char* tracker : {"wandb", "mlflow"}) {
    if (!config.has(tracker)) continue;
    words.insert(words.end(), {"--to", tracker});
    any = true;
  }
  if (!any) return std::unique_ptr<Tracker>();
  // The package that belongs to this program, whether or not that Python has it.
  const char* theirs = std::getenv("PYTHONPATH");
  std::string modules = ShippedFolder("python");
  if (theirs != nullptr && *theirs != 0) modules += std::string(":") + theirs;
  ChildOptions options;
  options.environment = {{"PYTHONPATH", modules}, {"TIDEMILL_PROGRAM", MainProgram()}};
  options.log = run + "/track.log";
  options.outlives_us = true;
  const std::string path = run + "/track.jsonl";
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return Unavailable(path + ": " + std::strerror(errno));
  Result<pid_t> pid = StartChild(words, options);
  if (!pid.ok()) {
    std::fclose(file);
    return pid.status().WithContext("track.python");
  }
  return std::unique_ptr<Tracker>(new Tracker(path, file, *pid, config.wait));
}

Status Tracker::Append(int64_t at_ms, int64_t step, const std::map<std::string, double>& scalars) {
  nlohmann::ordered_json line = {
      {"at_ms", at_ms}, {"step", step}, {"scalars", nlohmann::ordered_json::object()}};
  for (const auto& [name, value] : scalars) {
    if (std::isfinite(value)) line["scalars"][name] = value;
  }
  const std::string text = line.dump() + "\n";
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0;
  return written ? Ok() : Unavailable(path_ + ": " + std::strerror(errno));
}

Tracker::~Tracker() {
  std::fclose(file_);
  kill(pid_, SIGTERM);
  const auto end = std::chrono::steady_clock::now() + wait_;
  int status = 0;
  pid_t gone = 0;
  while ((gone = waitpid(pid_, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (gone == 0) {
    LogInfo("the trackers are not told everything yet; they go on alone", {{"pid", pid_}});
  } else if (gone == pid_ && status != 0) {
    LogWarn("the trackers were not told everything; see track.log", {{"how", HowItEnded(status)}});
  }
}

}  // namespace tidemill
