#include "reward/proof_port.h"

#include <nlohmann/json.hpp>

#include "reward/verifiers/equivalence.h"

namespace tidemill {
namespace {

using ProofJson = nlohmann::json;

// Less patience than a person has: what takes longer is cheaper in a box.
constexpr uint64_t kProofInputSteps = 100'000;
constexpr uint64_t kProofSteps = 20'000'000;
constexpr uint64_t kProofZ3Limit = 200'000;
// As many as the reward loop may wait for.
constexpr size_t kProofEventsMax = 1 << 16;

CommandAnswer UnknownAnswer(std::string why) {
  CommandAnswer answer;
  answer.comment = std::move(why);
  answer.parts[kProofUnknown].score = 1;
  return answer;
}

std::string TextField(const ProofJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t NumberField(const ProofJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

// The one source file of the answer, where its text came along.
const std::string* FindSource(const ProofJson& question) {
  const auto sources = question.find("sources");
  const auto files = question.find("files");
  if (sources == question.end() || !sources->is_array() || sources->size() != 1) return nullptr;
  if (files == question.end() || !files->is_array() || !(*sources)[0].is_string()) return nullptr;
  for (const ProofJson& file : *files) {
    if (!file.is_object() || !file.contains("content") || !file["content"].is_string()) continue;
    if (TextField(file, "path") == (*sources)[0].get<std::string>()) {
      return file["content"].get_ptr<const std::string*>();
    }
  }
  return nullptr;
}

}  // namespace

CommandAnswer AnswerProofQuestion(const std::string& question) {
  const ProofJson json = ProofJson::parse(question, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("specification") || !json["specification"].is_object()) {
    return UnknownAnswer("the task has no specification");
  }
  const ProofJson& specification = json["specification"];
  const std::string* candidate = FindSource(json);
  if (candidate == nullptr) return UnknownAnswer("the answer is not one small file");
  ProofOptions options;
  options.function = TextField(specification, "function");
  options.low = NumberField(specification, "low");
  options.high = NumberField(specification, "high");
  options.has_range = options.low != 0 || options.high != 0;
  options.input_steps_max = kProofInputSteps;
  options.steps_max = kProofSteps;
  options.z3_rlimit = kProofZ3Limit;
  const std::string reference = TextField(specification, "source");
  const auto proof = ProveEquivalent({reference, *candidate}, options);
  if (!proof.ok()) return UnknownAnswer(proof.status().message());
  if (proof->verdict == ProofVerdict::kUnknown) return UnknownAnswer(proof->Text());
  CommandAnswer answer;
  answer.has_score = true;
  answer.score = proof->verdict == ProofVerdict::kProved ? 1 : 0;
  answer.comment = proof->Text();
  return answer;
}

ProofPort::ProofPort(std::unique_ptr<ScorerPort> behind)
    : behind_(std::move(behind)),
      asks_behind_(behind_ != nullptr && behind_->Knows(kProofQuestion)),
      own_events_(kProofEventsMax),
      thread_([this] { Work(); }) {}

ProofPort::~ProofPort() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

bool ProofPort::Knows(const std::string& command) const {
  return command == kProofQuestion || (behind_ != nullptr && behind_->Knows(command));
}

void ProofPort::Submit(const std::string& command, std::string question, uint64_t tag) {
  if (command != kProofQuestion || asks_behind_) {
    TM_CHECK(behind_ != nullptr, "only known commands are submitted");
    return behind_->Submit(command, std::move(question), tag);
  }
  {
    MutexLock lock(mutex_);
    queue_.push_back({std::move(question), tag});
  }
  changed_.NotifyOne();
}

void ProofPort::Work() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.Wait(lock, [&]() TM_REQUIRES(mutex_) { return closing_ || !queue_.empty(); });
    if (closing_) return;
    const Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.Unlock();
    events().Post({job.tag, Ok(), AnswerProofQuestion(job.question)});
    lock.Lock();
  }
}

}  // namespace tidemill
