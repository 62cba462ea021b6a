// tidemill proof check REFERENCE.c CANDIDATE.c [--function NAME] [--range LOW:HIGH] [--json]:
// whether two C functions do the same on every input.
// tidemill proof audit RUN.. [--json]: what the prover says of runs' answers, against boxes.
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/proof_answers.h"
#include "core/files.h"
#include "core/text.h"
#include "prover/prover.h"
#include "testbeds/proof_audit.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

struct ProofCheck {
  std::string reference;
  std::string candidate;
  std::string range;
  bool json = false;
  ProofOptions options;
};

// "-40:40"
Status ReadRange(const std::string& text, ProofOptions& options) {
  const Status wrong = Invalid("--range must be LOW:HIGH, two integers, got \"" + text + "\"");
  const char* end = text.data() + text.size();
  const auto low = std::from_chars(text.data(), end, options.low);
  if (low.ec != std::errc() || low.ptr == end || *low.ptr != ':') return wrong;
  const auto high = std::from_chars(low.ptr + 1, end, options.high);
  if (high.ec != std::errc() || high.ptr != end) return wrong;
  if (options.low > options.high) return Invalid("--range " + text + " is empty");
  options.has_range = true;
  return Ok();
}

Json OutcomeJson(const ProofOutcome& outcome) {
  if (!outcome.returns) return {{"undefined", outcome.undefined}};
  if (outcome.is_unsigned) return {{"value", static_cast<uint64_t>(outcome.value)}};
  return {{"value", outcome.value}};
}

Json ProofJson(const Proof& proof) {
  Json json = {{"verdict", VerdictName(proof.verdict)},
               {"function", proof.function},
               {"method", proof.method},
               {"text", proof.Text()}};
  if (proof.verdict == ProofVerdict::kUnknown) json["reason"] = proof.reason;
  if (!proof.inputs.empty()) {
    Json& inputs = json["inputs"] = Json::object();
    for (const ProofArgument& argument : proof.inputs) {
      if (argument.is_unsigned) {
        inputs[argument.name] = static_cast<uint64_t>(argument.value);
      } else {
        inputs[argument.name] = argument.value;
      }
    }
  }
  if (proof.verdict == ProofVerdict::kRefuted) {
    json["reference"] = OutcomeJson(proof.reference);
    json["candidate"] = OutcomeJson(proof.candidate);
  }
  json["inputs_tried"] = proof.inputs_tried;
  json["steps"] = proof.steps;
  return json;
}

int ExitOf(ProofVerdict verdict) {
  switch (verdict) {
    case ProofVerdict::kProved:
      return 0;
    case ProofVerdict::kRefuted:
      return 1;
    case ProofVerdict::kUnknown:
      break;
  }
  return 3;
}

int Check(ProofCheck& check) {
  if (!check.range.empty()) {
    if (const Status status = ReadRange(check.range, check.options); !status.ok()) {
      return Wrong(status);
    }
  }
  const auto reference = ReadFileBounded(check.reference, kCTextMax);
  if (!reference.ok()) return Wrong(reference.status());
  const auto candidate = ReadFileBounded(check.candidate, kCTextMax);
  if (!candidate.ok()) return Wrong(candidate.status());
  const ProofTexts texts{*reference, *candidate, check.reference, check.candidate};
  const auto proof = ProveEquivalent(texts, check.options);
  if (!proof.ok()) return Wrong(proof.status());
  if (check.json) {
    PrintJson(ProofJson(*proof));
  } else {
    std::printf("%s: %s\n", std::string(VerdictName(proof->verdict)).c_str(),
                proof->Text().c_str());
  }
  return ExitOf(proof->verdict);
}

struct ProofAudit {
  std::vector<std::string> names;
  std::string runs = "runs", tasks;
  bool json = false;
};

int AuditRuns(const ProofAudit& audit) {
  std::vector<RunAnswers> read;  // what the answers point into
  std::map<std::pair<std::string, std::string>, PolicyAnswer> distinct;
  for (const std::string& name : audit.names) {
    auto answers = ReadRunAnswers(audit.runs, name, audit.tasks);
    if (!answers.ok()) return Fail(answers.status());
    read.push_back(std::move(*answers));
    for (const PolicyAnswer& answer : read.back().answers) {
      const auto [found, added] = distinct.emplace(
          std::pair(answer.grading->specification().source(), answer.text), answer);
      if (!added) found->second.times += answer.times;
    }
  }
  std::vector<PolicyAnswer> all;
  for (const auto& [key, answer] : distinct) all.push_back(answer);
  const auto report = AuditProofs(all);
  if (!report.ok()) return Fail(report.status());
  std::printf("%s\n",
              audit.json ? report->ToJson().c_str() : ForTerminal(report->ToText()).c_str());
  return report->Holds() ? 0 : 1;
}

void AddAudit(CLI::App& proof, Exit& exit) {
  CLI::App* command = proof.add_subcommand(
      "audit",
      "Compare what the prover says of every answer of some runs with boxes that run it on every "
      "input. Exit status 1: a disagreement without a reason, or a missed bound");
  auto options = std::make_shared<ProofAudit>();
  command->add_option("runs", options->names, "Names of the runs")->required();
  command->add_option("--folder", options->runs, "Folder of the runs")->capture_default_str();
  command->add_option("--tasks", options->tasks, "Task file; default: the one of the run's config");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->callback([options, &exit] { exit.code = AuditRuns(*options); });
}

}  // namespace

void AddProofCommand(CLI::App& app, Exit& exit) {
  CLI::App* proof =
      app.add_subcommand("proof", "Prove properties of C functions without running them");
  proof->require_subcommand(1);
  CLI::App* check = proof->add_subcommand(
      "check",
      "Check whether a function does the same as the reference on every input. Exit status: 0 "
      "proved, 1 refuted, 3 unknown, 2 wrong command line or not C");
  auto options = std::make_shared<ProofCheck>();  // shared: the callbacks outlive this call
  check->add_option("reference", options->reference, "Reference C file")->required();
  check->add_option("candidate", options->candidate, "C file to check")->required();
  check->add_option("--function", options->options.function,
                    "Function to compare; default: the one name that both files define, or f");
  check->add_option("--range", options->range,
                    "LOW:HIGH, range of every argument; default: the whole range of its type");
  check->add_flag("--json", options->json, "Print one JSON object on standard output");
  check->callback([options, &exit] { exit.code = Check(*options); });
  AddAudit(*proof, exit);
}

}  // namespace tidemill
