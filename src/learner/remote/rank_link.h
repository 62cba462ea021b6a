// How the learner talks to ranks of another program: a command at a time, each answered before the
// next. python/tidemill_fsdp is the other end.
//
//   RankMessage -> EncodeRankMessage -> socket -> rank 0 -> all ranks -> answer
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

struct RankMessage {
  nlohmann::json words = nlohmann::json::object();
  std::map<std::string, std::vector<int32_t>> ints{};
  std::map<std::string, std::vector<float>> floats{};
};

// In front of every message.
struct RankFrame {
  static constexpr size_t kBytes = 12;
  uint32_t words = 0;   // bytes of JSON
  uint64_t arrays = 0;  // bytes of numbers
};

std::string EncodeRankMessage(const RankMessage& message);
// kInvalid: more than any message has.
Result<RankFrame> DecodeRankFrame(std::string_view bytes);
// kInvalid: it is none, and why.
Result<RankMessage> DecodeRankMessage(std::string_view words, std::string_view arrays);

// A number of an answer. kInvalid: it is not there, or not finite.
Result<double> NumberIn(const RankMessage& answer, const char* name);

// Belongs to one thread, but for lost().
class RankLink {
 public:
  virtual ~RankLink() = default;
  // kInvalid: the ranks refuse it, with nothing changed. kUnavailable: they are gone or hang, which
  // one where that is known; nothing can be asked any more.
  virtual Result<RankMessage> Ask(const RankMessage& message) = 0;
  // How many processes share the work.
  virtual uint32_t ranks() const = 0;
  // Any thread: whether they are gone.
  virtual bool lost() const = 0;
};

}  // namespace tidemill
