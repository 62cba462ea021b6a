#include "live/erase_bus.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/topics.h"
#include "live/next_state.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

constexpr int kLetterTries = 100;
constexpr auto kLetterPause = std::chrono::milliseconds(50);

bool IsOf(const std::string& body, const std::vector<uint64_t>& sessions) {
  v1::DeadLetter letter;
  if (!letter.ParseFromString(body)) return false;
  const auto is_one = [&](uint64_t number) {
    return std::find(sessions.begin(), sessions.end(), number) != sessions.end();
  };
  // A message that cannot be read may be of any session.
  if (letter.topic() == kLiveEventsTopic) {
    v1::LiveEvent event;
    return !event.ParseFromString(letter.body()) ||
           is_one(event.has_revised() ? event.revised().verdict().id().group()
                                      : event.sample().trajectory().id().group());
  }
  if (letter.topic() == kMemoryCasesTopic) {
    v1::CaseRecord record;
    return !record.ParseFromString(letter.body()) || is_one(record.session());
  }
  if (letter.topic() == kJudgeTopic) {
    v1::JudgeRequest request;
    return !request.ParseFromString(letter.body()) ||
           is_one(SessionOfQuestion(request.request_id()));
  }
  if (letter.topic().starts_with("inbox.") && letter.topic().ends_with(".live")) {
    v1::JudgeAnswer answer;
    return !answer.ParseFromString(letter.body()) || is_one(SessionOfQuestion(answer.request_id()));
  }
  return false;
}

}  // namespace

Result<uint64_t> EraseDeadLetters(Bus& bus, const std::vector<uint64_t>& sessions) {
  // All of them are taken before any is given back, so that none is seen twice.
  std::vector<Lease> letters;
  Status status;
  for (int i = 0;; ++i) {
    const auto depth = bus.Depth(kDeadTopic);
    status = depth.status();
    if (!depth.ok() || depth->ready == 0) break;
    auto taken = bus.Receive(kDeadTopic, depth->ready);
    status = taken.status();
    if (!taken.ok()) break;
    for (Lease& lease : *taken) letters.push_back(std::move(lease));
    if (i == kLetterTries) {
      status = Unavailable("the bus does not hand out its dead letters; delete again");
      break;
    }
    if (taken->empty()) std::this_thread::sleep_for(kLetterPause);
  }
  uint64_t erased = 0;
  for (const Lease& letter : letters) {
    if (!IsOf(letter.body, sessions)) {
      (void)bus.Release(letter, Duration::zero());
    } else if (const Status gone = bus.Ack(letter); gone.ok()) {
      ++erased;
    } else {
      status = gone;
    }
  }
  if (!status.ok()) return status.WithContext("dead letters");
  return erased;
}

}  // namespace tidemill
