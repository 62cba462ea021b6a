#include "core/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/mutex.h"
#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kRememberedKeysMax = 1024;

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

// Made by InitLog. Replaced as a whole, never changed.
struct Output {
  std::shared_ptr<spdlog::logger> logger;  // shared: spdlog's own way of holding sinks and loggers
  bool json = false;
};

Output MakeOutput(const LogOptions& options) {
  spdlog::sink_ptr sink;
  if (options.stream != nullptr) {
    sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(*options.stream, true);
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  }
  auto logger = std::make_shared<spdlog::logger>("tidemill", sink);
  if (options.json) {
    logger->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})",
                        spdlog::pattern_time_type::utc);
  } else {
    logger->set_pattern("%H:%M:%S.%e %^%-7l%$ %v");
  }
  logger->set_level(ToSpdlog(options.level));
  logger->flush_on(spdlog::level::debug);
  return {std::move(logger), options.json};
}

Output& TheOutput() {
  // Never destroyed: threads may log until the process ends.
  static Output& output = *new Output(MakeOutput({}));
  return output;
}

void AppendJsonString(std::string& out, std::string_view text) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool NeedsQuotes(std::string_view text) {
  return text.empty() || std::any_of(text.begin(), text.end(), [](unsigned char c) {
           return c <= ' ' || c == '"' || c == '=' || c == '\\';
         });
}

std::string Render(bool json, std::string_view message, LogFields fields) {
  std::string line;
  if (json) {
    line += "\"message\":";
    AppendJsonString(line, message);
  } else {
    line += message;
  }
  const char* separator = "  ";
  for (const LogField& field : fields) {
    if (json) {
      line += ',';
      AppendJsonString(line, field.key());
      line += ':';
    } else {
      line += separator;
      line += field.key();
      line += '=';
      separator = " ";
    }
    if (field.is_text() && (json || NeedsQuotes(field.value()))) {
      AppendJsonString(line, field.value());
    } else {
      line += field.value();
    }
  }
  return json ? line : ForTerminal(line);
}

// The messages of LogEvery and LogOnce so far.
class Said {
 public:
  // Whether to say it now; how many were left out since the last time.
  bool MayLog(std::string_view key, std::chrono::steady_clock::duration period,
              uint64_t& left_out) {
    using Clock = std::chrono::steady_clock;
    const auto now = Clock::now();
    MutexLock lock(mutex_);
    auto it = entries_.find(key);
    if (it == entries_.end()) {
      if (entries_.size() >= kRememberedKeysMax) Forget();
      entries_.emplace(key, Entry{now, 0});
      left_out = 0;
      return true;
    }
    Entry& entry = it->second;
    if (now - entry.last < period) {
      ++entry.left_out;
      return false;
    }
    entry.last = now;
    left_out = std::exchange(entry.left_out, 0);
    return true;
  }

 private:
  struct Entry {
    std::chrono::steady_clock::time_point last;
    uint64_t left_out;
  };

  void Forget() TM_REQUIRES(mutex_) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](auto& a, auto& b) {
      return a.second.last < b.second.last;
    }));
  }

  Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ TM_GUARDED_BY(mutex_);
};

Said& TheSaid() {
  static Said& said = *new Said;
  return said;
}

}  // namespace

Result<LogLevel> ParseLogLevel(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return Invalid("a log level is one of debug, info, warn, error, off, not \"" + std::string(name) +
                 "\"");
}

void InitLog(const LogOptions& options) {
  TheOutput() = MakeOutput(options);
}

LogField::LogField(std::string_view key, double value)
    : key_(key), value_(fmt::format("{:.6g}", value)), text_(!std::isfinite(value)) {}

bool LogEnabled(LogLevel level) {
  return level != LogLevel::kOff && TheOutput().logger->should_log(ToSpdlog(level));
}

void Log(LogLevel level, std::string_view message, LogFields fields) {
  if (!LogEnabled(level)) return;
  const Output& output = TheOutput();
  const std::string line = Render(output.json, message, fields);
  output.logger->log(ToSpdlog(level), spdlog::string_view_t(line));
}

void LogEvery(std::chrono::steady_clock::duration period, std::string_view key, LogLevel level,
              std::string_view message, LogFields fields) {
  if (!LogEnabled(level)) return;
  uint64_t left_out = 0;
  if (!TheSaid().MayLog(key, period, left_out)) return;
  if (left_out == 0) return Log(level, message, fields);
  Log(level, std::string(message) + " (and " + std::to_string(left_out) + " times before)", fields);
}

void LogOnce(std::string_view key, LogLevel level, std::string_view message, LogFields fields) {
  LogEvery(std::chrono::steady_clock::duration::max(), key, level, message, fields);
}

}  // namespace tidemill
