#include "reward/proof_port.h"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "prover/prover.h"

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

uint64_t ThreadCpuUs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

// A main of its own is another program than the tests'.
bool DefinesMain(const std::string& text) {
  if (text.find("main") == std::string::npos) return false;
  const auto names = FunctionsOfC(text);
  return names.ok() && std::find(names->begin(), names->end(), "main") != names->end();
}

// The function that is asked for; empty: there is no telling.
std::string FunctionOf(const v1::Specification& specification) {
  if (!specification.function().empty()) return specification.function();
  const auto names = FunctionsOfC(specification.source());
  return names.ok() && names->size() == 1 ? names->front() : "";
}

}  // namespace

Proof ProveAnswer(const v1::Specification& specification, const std::string& candidate) {
  ProofOptions options;
  options.function = specification.function();
  options.low = specification.low();
  options.high = specification.high();
  options.has_range = options.low != 0 || options.high != 0;
  options.input_steps_max = kProofInputSteps;
  options.steps_max = kProofSteps;
  options.z3_rlimit = kProofZ3Limit;
  const auto found = ProveEquivalent({specification.source(), candidate}, options);
  if (found.ok() && !DefinesMain(candidate)) return *found;
  Proof proof;
  proof.function = specification.function();
  const Status no_c = found.ok() ? Ok() : WhyNoC(candidate, FunctionOf(specification));
  if (!no_c.ok()) {
    proof.verdict = ProofVerdict::kRefuted;
    proof.method = kNoCMethod;
    proof.reason = "the answer is no C: " + no_c.message();
  } else {
    proof.reason = found.ok() ? "the answer defines main" : found.status().message();
  }
  return proof;
}

CommandAnswer AnswerProofQuestion(const std::string& question) {
  const ProofJson json = ProofJson::parse(question, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("specification") || !json["specification"].is_object()) {
    return UnknownAnswer("the task has no specification");
  }
  const ProofJson& asked = json["specification"];
  const std::string* candidate = FindSource(json);
  if (candidate == nullptr) return UnknownAnswer("the answer is not one small file");
  v1::Specification specification;
  specification.set_source(TextField(asked, "source"));
  specification.set_function(TextField(asked, "function"));
  specification.set_low(NumberField(asked, "low"));
  specification.set_high(NumberField(asked, "high"));
  const Proof proof = ProveAnswer(specification, *candidate);
  if (proof.verdict == ProofVerdict::kUnknown) return UnknownAnswer(proof.Text());
  CommandAnswer answer;
  answer.has_score = true;
  answer.score = proof.verdict == ProofVerdict::kProved ? 1 : 0;
  answer.comment = proof.Text();
  return answer;
}

ProofPort::ProofPort(std::unique_ptr<ScorerPort> behind)
    : behind_(std::move(behind)),
      asks_behind_(behind_ != nullptr && behind_->Knows(kProofQuestion)),
      own_events_(kProofEventsMax),
      queue_(kProofEventsMax) {
  queue_.Start([this](const Job& job) { Answer(job); });
}

bool ProofPort::Knows(const std::string& command) const {
  return command == kProofQuestion || (behind_ != nullptr && behind_->Knows(command));
}

void ProofPort::Submit(const std::string& command, std::string question, uint64_t tag) {
  if (command != kProofQuestion || asks_behind_) {
    TM_CHECK(behind_ != nullptr, "only known commands are submitted");
    return behind_->Submit(command, std::move(question), tag);
  }
  queue_.Put({std::move(question), tag});
}

void ProofPort::Answer(const Job& job) {
  const uint64_t start = ThreadCpuUs();
  CommandAnswer answer = AnswerProofQuestion(job.question);
  events().Post({job.tag, Ok(), std::move(answer), ThreadCpuUs() - start});
}

}  // namespace tidemill
