// The log: one line an event on standard error, a sentence and then key=value pairs, or a JSON
// object.
//   12:00:01.250 info  weights published  version=3 ms=4.2
//   {"time":"2026-01-31T12:00:01.250Z","level":"info","message":"weights
//   published","version":3,"ms":4.2}
// For people who watch a run; what programs need is in metrics and the database.
#pragma once

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

// "debug", "info", "warn", "error" or "off".
Result<LogLevel> ParseLogLevel(std::string_view name);

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  bool json = false;
  std::ostream* stream = nullptr;  // instead of standard error; must outlive the next InitLog
};

// Before InitLog the log has the default options. Not while other threads log.
void InitLog(const LogOptions& options);

// A pair. Numbers and booleans stay what they are in JSON.
class LogField {
 public:
  LogField(std::string_view key, std::string_view value) : key_(key), value_(value), text_(true) {}
  LogField(std::string_view key, const char* value) : LogField(key, std::string_view(value)) {}
  LogField(std::string_view key, const std::string& value)
      : LogField(key, std::string_view(value)) {}
  LogField(std::string_view key, bool value) : key_(key), value_(value ? "true" : "false") {}
  LogField(std::string_view key, double value);
  LogField(std::string_view key, std::integral auto value)
      : key_(key), value_(std::to_string(value)) {}

  std::string_view key() const { return key_; }
  const std::string& value() const { return value_; }
  bool is_text() const { return text_; }

 private:
  std::string_view key_;  // borrowed for the call
  std::string value_;
  bool text_ = false;
};

using LogFields = std::initializer_list<LogField>;

// Thread-safe, all of them.
bool LogEnabled(LogLevel level);
void Log(LogLevel level, std::string_view message, LogFields fields = {});
inline void LogDebug(std::string_view m, LogFields f = {}) {
  Log(LogLevel::kDebug, m, f);
}
inline void LogInfo(std::string_view m, LogFields f = {}) {
  Log(LogLevel::kInfo, m, f);
}
inline void LogWarn(std::string_view m, LogFields f = {}) {
  Log(LogLevel::kWarn, m, f);
}
inline void LogError(std::string_view m, LogFields f = {}) {
  Log(LogLevel::kError, m, f);
}

// At most one line a `period` for each `key`; the next line says how many were left out. Keys are
// remembered up to a bound, the longest silent one forgotten first.
void LogEvery(std::chrono::steady_clock::duration period, std::string_view key, LogLevel level,
              std::string_view message, LogFields fields = {});

// Once in the life of the process for each `key`.
void LogOnce(std::string_view key, LogLevel level, std::string_view message, LogFields fields = {});

}  // namespace tidemill
