// How a thing that can be expected to fail says so: a Status, or a Result<T> that holds a T or a
// Status. What can never happen is a TM_CHECK, on in every build.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tidemill {

enum class Code : uint8_t {
  kOk = 0,
  kInvalid,      // the input is wrong; trying again will not help
  kNotFound,     // what was named is not there (any more)
  kExists,       // it is there already
  kFull,         // a bounded thing has no room now; try again later
  kUnavailable,  // something outside did not answer; try again later
  kTimeout,      // it took longer than allowed
  kClosed,       // the other side was closed on purpose
  kCorrupt,      // stored or received bytes are not what was written
  kInternal,     // a failure of ours that fits nothing above
};

std::string_view CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // "kNotFound: no blob 3f2a..", or "ok".
  std::string ToString() const;
  // The same failure with `context` in front: "reading tasks.jsonl: line 3: ...". Ok stays ok.
  Status WithContext(std::string_view context) const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status Ok() {
  return {};
}
inline Status Invalid(std::string message) {
  return {Code::kInvalid, std::move(message)};
}
inline Status NotFound(std::string message) {
  return {Code::kNotFound, std::move(message)};
}
inline Status Exists(std::string message) {
  return {Code::kExists, std::move(message)};
}
inline Status Full(std::string message) {
  return {Code::kFull, std::move(message)};
}
inline Status Unavailable(std::string message) {
  return {Code::kUnavailable, std::move(message)};
}
inline Status Timeout(std::string message) {
  return {Code::kTimeout, std::move(message)};
}
inline Status Closed(std::string message) {
  return {Code::kClosed, std::move(message)};
}
inline Status Corrupt(std::string message) {
  return {Code::kCorrupt, std::move(message)};
}
inline Status Internal(std::string message) {
  return {Code::kInternal, std::move(message)};
}

[[noreturn]] void CheckFailed(const char* file, int line, const char* what,
                              std::string_view detail);

#define TM_CHECK(condition, ...)                                                              \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::tidemill::CheckFailed(__FILE__, __LINE__, #condition, std::string_view{__VA_ARGS__}); \
  } while (false)

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: a value is a result
  Result(Status status) : status_(std::move(status)) {  // NOLINT: a failure is a result
    TM_CHECK(!status_.ok(), "a Result without a value must say why");
  }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  // A Result that is about to go gives its value away, not a reference into itself, so that
  // `for (auto& x : *F())` and `const auto& x = *F()` hold what they use.
  T& value() & { return Get(); }
  const T& value() const& { return const_cast<Result*>(this)->Get(); }
  T value() && { return std::move(Get()); }
  T& operator*() & { return Get(); }
  const T& operator*() const& { return const_cast<Result*>(this)->Get(); }
  T operator*() && { return std::move(Get()); }
  T* operator->() { return &Get(); }
  const T* operator->() const { return &const_cast<Result*>(this)->Get(); }

 private:
  T& Get() {
    TM_CHECK(value_.has_value(), status_.message());
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

#define TM_CONCAT_INNER(a, b) a##b
#define TM_CONCAT(a, b) TM_CONCAT_INNER(a, b)

// Leaves the function with the Status of `expression` unless it is ok.
#define TM_RETURN_IF_ERROR(expression)            \
  do {                                            \
    ::tidemill::Status tm_status_ = (expression); \
    if (!tm_status_.ok()) return tm_status_;      \
  } while (false)

// TM_ASSIGN_OR_RETURN(auto x, F()): x is F()'s value, or the function is left with its Status.
#define TM_ASSIGN_OR_RETURN(target, expression)                                               \
  auto TM_CONCAT(tm_result_, __LINE__) = (expression);                                        \
  if (!TM_CONCAT(tm_result_, __LINE__).ok()) return TM_CONCAT(tm_result_, __LINE__).status(); \
  target = std::move(TM_CONCAT(tm_result_, __LINE__)).value()

}  // namespace tidemill
