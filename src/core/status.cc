#include "core/status.h"

#include <cstdio>
#include <cstdlib>

namespace tidemill {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not found";
    case Code::kExists:
      return "exists already";
    case Code::kFull:
      return "full";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kTimeout:
      return "timeout";
    case Code::kClosed:
      return "closed";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown code";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(CodeName(code_)) + ": " + message_;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return {code_, std::string(context) + ": " + message_};
}

void CheckFailed(const char* file, int line, const char* what, std::string_view detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%.*s\n", file, line, what,
               detail.empty() ? "" : ": ", static_cast<int>(detail.size()), detail.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace tidemill
