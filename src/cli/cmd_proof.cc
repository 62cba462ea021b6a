// tidemill proof check REFERENCE.c CANDIDATE.c [--function NAME] [--range LOW:HIGH] [--json]:
// whether two C functions do the same on every input.
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "core/files.h"
#include "reward/verifiers/c_lexer.h"
#include "reward/verifiers/equivalence.h"

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
  const Status wrong = Invalid("--range wants LOW:HIGH, two integers, got \"" + text + "\"");
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

}  // namespace

void AddProofCommand(CLI::App& app, Exit& exit) {
  CLI::App* proof = app.add_subcommand("proof", "Proofs about C functions, without running them");
  proof->require_subcommand(1);
  CLI::App* check = proof->add_subcommand(
      "check",
      "Whether a function does what the reference does on every input. Exit status: 0 proved, 1 "
      "refuted, 3 unknown, 2 the words were wrong or a text is not C");
  auto options = std::make_shared<ProofCheck>();  // shared: the callbacks outlive this call
  check->add_option("reference", options->reference, "The C file that is right")->required();
  check->add_option("candidate", options->candidate, "The C file to check")->required();
  check->add_option("--function", options->options.function,
                    "The function to compare; not needed where the files share one name, or f");
  check->add_option("--range", options->range,
                    "LOW:HIGH: every argument lies in it; without it, in all of its type");
  check->add_flag("--json", options->json, "One JSON object on standard output");
  check->callback([options, &exit] { exit.code = Check(*options); });
}

}  // namespace tidemill
