#include "gateway/access_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "core/files.h"
#include "core/log.h"
#include "core/text.h"
#include "gateway/chat_request.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr size_t kLinesMax = 65'536;
constexpr size_t kUserAgentBytes = 200;

double Rounded(double seconds) {
  return static_cast<double>(static_cast<int64_t>(seconds * 1e6)) / 1e3;
}

}  // namespace

std::string AccessLine(const RequestReport& report, int64_t wall_ms) {
  const std::time_t seconds = wall_ms / 1000;
  WireJson line = {
      {"time", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), wall_ms % 1000)},
      {"request_id", report.request_id},
      {"tenant", report.tenant},
      {"method", report.method},
      {"path", report.path},
      {"status", report.status},
      {"stream", report.stream},
      {"user_agent", Beginning(report.user_agent, kUserAgentBytes)},
      {"total_ms", Rounded(report.total_s)}};
  if (!report.error.empty()) line["error"] = report.error;
  if (report.choices > 0) {
    line["prompt_tokens"] = report.prompt_tokens;
    line["cached_tokens"] = report.cached_tokens;
    line["completion_tokens"] = report.completion_tokens;
    line["queue_ms"] = Rounded(report.queue_s);
    line["first_token_ms"] = Rounded(report.first_token_s);
    line["policy_version"] = report.version;
  }
  if (!report.finish.empty()) line["finish"] = report.finish;
  return DumpWire(line);
}

Result<std::unique_ptr<AccessLog>> AccessLog::Open(const std::string& path, const Clock& clock) {
  Fd fd(path == "-" ? dup(STDERR_FILENO)
                    : open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640));
  if (!fd) return FileFailure(path, "cannot open the access log", errno);
  (void)CloseOnExec(fd.get());
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(fd), path, clock));
}

AccessLog::AccessLog(Fd fd, std::string path, const Clock& clock)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      clock_(clock),
      lines_(kLinesMax, WorkQueue<std::string>::AtEnd::kFinish) {
  lines_.StartBatches([this](const std::vector<std::string>& lines) { Write(lines); },
                      [](const auto&, const auto&) { return true; });
}

void AccessLog::Add(const RequestReport& report) {
  if (!lines_.TryPut(AccessLine(report, clock_.WallMs()))) ++dropped_;
}

void AccessLog::Write(const std::vector<std::string>& lines) {
  std::string bytes;
  for (const std::string& line : lines) bytes.append(line).append("\n");
  const Status status = WriteAll(fd_, bytes, path_);
  if (status.ok()) return;
  LogEvery(std::chrono::seconds(60), "access-log", LogLevel::kWarn, "the access log lost lines",
           {{"error", status.message()}});
}

}  // namespace tidemill
