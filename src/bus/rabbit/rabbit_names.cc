#include "bus/rabbit/rabbit_names.h"

#include <algorithm>
#include <random>

#include "bus/bus.h"
#include "bus/topic_rules.h"

namespace tidemill {
namespace {

constexpr int64_t kShortestMs = 16;
constexpr int64_t kTtlMaxMs = int64_t{1} << 31;  // what an x-message-ttl can be
constexpr int64_t kOwnTopicLastsMs = 3600 * 1000;
constexpr int64_t kMemberQueueMax = 20'000;
constexpr int64_t kNewcomerWaitsMs = 5000;

}  // namespace

Status CheckRabbitRun(std::string_view run) {
  const bool printable = std::all_of(
      run.begin(), run.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '/'; });
  if (!run.empty() && run.size() <= 48 && printable) return Ok();
  return Invalid("run \"" + std::string(run) +
                 "\": the name of a run on rabbitmq must have 1 to 48 printable characters other "
                 "than spaces and /");
}

std::string RabbitNames::Parking(Duration level) const {
  return prefix + "parking/" +
         std::to_string(std::chrono::duration_cast<milliseconds>(level).count());
}

std::vector<Duration> ParkingLevels() {
  std::vector<Duration> levels;
  for (int64_t octave = kShortestMs; octave < kTtlMaxMs; octave *= 2) {
    for (int64_t quarter = 4; quarter < 8; ++quarter) {
      levels.emplace_back(milliseconds(octave / 4 * quarter));
    }
  }
  return levels;
}

Duration ParkingLevel(Duration delay) {
  static const std::vector<Duration> levels = ParkingLevels();
  const auto found = std::lower_bound(levels.begin(), levels.end(), delay);
  return found == levels.end() ? levels.back() : *found;
}

bool IsOwnTopic(std::string_view topic) {
  return !TopicOwner(topic).empty();
}

RabbitQueue TopicQueue(const RabbitNames& names, std::string_view topic, bool quorum) {
  RabbitQueue queue = {.name = names.Topic(topic)};
  queue.arguments.emplace_back("x-queue-type", std::string(quorum ? "quorum" : "classic"));
  if (topic == kDeadTopic) {
    queue.arguments.emplace_back("x-max-length", static_cast<int64_t>(kDeadCapacity));
  }
  if (IsOwnTopic(topic)) queue.arguments.emplace_back("x-expires", kOwnTopicLastsMs);
  return queue;
}

RabbitQueue ParkingQueue(const RabbitNames& names, Duration level, bool quorum) {
  RabbitQueue queue = {.name = names.Parking(level)};
  queue.arguments.emplace_back("x-queue-type", std::string(quorum ? "quorum" : "classic"));
  queue.arguments.emplace_back("x-message-ttl",
                               std::chrono::duration_cast<milliseconds>(level).count());
  // To the queue that the message's own key names.
  queue.arguments.emplace_back("x-dead-letter-exchange", std::string());
  if (quorum) {
    queue.arguments.emplace_back("x-dead-letter-strategy", std::string("at-least-once"));
    queue.arguments.emplace_back("x-overflow", std::string("reject-publish"));
  }
  return queue;
}

RabbitQueue MemberQueue(const RabbitNames& names, std::string_view client) {
  return {.name = names.Member(client),
          .durable = false,
          .exclusive = true,
          .arguments = {{"x-max-length", kMemberQueueMax}}};
}

RabbitQueue NewcomersQueue(const RabbitNames& names) {
  return {.name = names.Newcomers(), .arguments = {{"x-message-ttl", kNewcomerWaitsMs}}};
}

RabbitQueue ObjectQueue(const RabbitNames& names, std::string_view name) {
  return {.name = names.Object(name),
          .arguments = {{"x-queue-type", std::string("stream")}, {"x-max-age", std::string("1D")}}};
}

std::string NewRabbitClient(std::string_view name) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device device;
  const uint64_t random = (uint64_t{device()} << 32) | device();
  std::string unique(name.empty() ? "client" : name);
  unique += '-';
  for (int i = 0; i < 16; ++i) unique += kDigits[(random >> (4 * i)) & 15];
  return unique;
}

}  // namespace tidemill
