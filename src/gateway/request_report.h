// A request that is over, for the access log and the metrics.
#pragma once

#include <cstdint>
#include <string>

namespace tidemill {

struct RequestReport {
  std::string request_id{};
  std::string method{};
  std::string path{};
  std::string tenant{};
  std::string user_agent{};
  int status = 200;     // 499: the client left before the end
  std::string error{};  // code or type of an error; empty: none
  bool stream = false;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int choices = 0;
  std::string finish{};  // of the first choice: "stop", "length", "tool_calls"
  uint64_t version = 0;  // of the last token's policy
  double queue_s = 0;
  double first_token_s = 0;  // since it arrived; 0: there was none
  double total_s = 0;
};

// Thread-safe.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  // Must not block.
  virtual void Over(const RequestReport& report) = 0;
};

}  // namespace tidemill
