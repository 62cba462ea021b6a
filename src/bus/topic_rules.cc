#include "bus/topic_rules.h"

#include <algorithm>
#include <string>

#include "core/topics.h"

namespace tidemill {
namespace {

constexpr Duration kYear = std::chrono::hours(24 * 365);
constexpr size_t kNameMax = 200;

constexpr std::string_view kInbox = "inbox.";

}  // namespace

std::string TopicOwner(std::string_view topic) {
  for (const std::string& own : {ToolCancelTopic(""), ToolBoxTopic("")}) {
    if (topic.starts_with(own)) return std::string(topic.substr(own.size()));
  }
  if (!topic.starts_with(kInbox)) return "";
  topic.remove_prefix(kInbox.size());
  const size_t dot = topic.rfind('.');  // a host's name may have dots
  return dot == std::string_view::npos ? "" : std::string(topic.substr(0, dot));
}

Status CheckTopic(std::string_view topic, const TopicOptions& options) {
  const std::string name = "topic \"" + std::string(topic) + "\": ";
  if (topic.empty() || topic.size() > kNameMax) {
    return Invalid(name + "a name must have 1 to " + std::to_string(kNameMax) + " characters");
  }
  const bool printable =
      std::all_of(topic.begin(), topic.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (!printable)
    return Invalid(name + "a name must have printable ASCII characters and no spaces");
  if (options.capacity == 0) return Invalid(name + "capacity must be at least 1");
  if (options.lease < milliseconds(1) || options.lease > kYear) {
    return Invalid(name + "the lease must be between 1 ms and a year");
  }
  if (options.max_deliveries == 0) return Invalid(name + "max_deliveries must be at least 1");
  return Ok();
}

Status NoTopic(std::string_view topic) {
  return NotFound("no topic \"" + std::string(topic) + "\" is open");
}

Status TopicFull(std::string_view topic) {
  return Full("topic \"" + std::string(topic) + "\" is at capacity");
}

Duration ClampDelay(Duration delay) {
  return std::clamp(delay, Duration::zero(), kYear);
}

}  // namespace tidemill
