#include "skills/skill_guard.h"

#include <algorithm>
#include <utility>

#include "core/text.h"
#include "memory/lexical_index.h"

namespace tidemill {
namespace {

// A shorter line may stand anywhere; a test of fewer words may be chance.
constexpr size_t kTellingBytes = 16;
constexpr size_t kTellingName = 12;
constexpr size_t kTellingWords = 4;
constexpr size_t kSecretLinesMax = 100'000;

struct WrongShape {
  const char* what;
  const char* pattern;  // PCRE2
};

#define TM_NEAR "[^.\\n]{0,60}"
constexpr WrongShape kWrongShapes[] = {
    {"it tells its reader to ignore instructions",
     "(?i)\\b(?:ignor|disregard|forget|overrid)[a-z]*\\b" TM_NEAR
     "\\b(?:instructions?|rules|rubrics?|criteria|guidelines|prompts?)\\b"},
    {"it speaks to a judge",
     "(?i)\\b(?:judg(?:es?|ing)|grad(?:ers?|ing)|evaluators?|reviewers?|scorers?|assessors?)"
     "\\b" TM_NEAR
     "\\b(?:must|should|shall|please|have to|has to|give|award|assign|rate|score|mark|accept|pass|"
     "approve|vote)\\b"},
    {"it asks for a verdict",
     "(?i)\\b(?:give|award|assign|rate|score|mark|grade|return|output|vote)\\b" TM_NEAR
     "\\b(?:full|maximum|max|highest|top|perfect|10/10|100 ?%)" TM_NEAR
     "\\b(?:scores?|marks?|points?|rewards?|grades?|ratings?|credit)\\b"},
    {"it asks for a verdict",
     "(?i)\\b(?:score|reward|verdict|grade)\\b\\W{0,4}(?:=|:|is|to)\\W{0,4}"
     "(?:1(?:\\.0+)?|10(?:/10)?|100 ?%|pass(?:ed)?|correct|solved)\\b"},
    {"it has words that open a turn",
     "<\\|[A-Za-z0-9_ "
     "]{1,40}\\|>|\\[/?INST\\]|<</?SYS>>|</?(?:system|assistant|user|human|tool_call|"
     "tool_response|start_of_turn|end_of_turn)>|(?m)^(?:System|Assistant|Human|User) ?:"},
};
#undef TM_NEAR

// In lower case, white space as one space.
std::string Plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

class SecretCollector {
 public:
  explicit SecretCollector(const std::vector<std::string>& seen) {
    for (const std::string& text : seen) seen_ += Plain(text) + "\n";
  }

  void AddLines(std::string_view text, size_t telling = kTellingBytes) {
    while (!text.empty() && secrets_.lines.size() < kSecretLinesMax) {
      const size_t end = text.find('\n');
      std::string line = Plain(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (line.size() < telling || seen_.find(line) != std::string::npos) continue;
      secrets_.lines.push_back(std::move(line));
    }
  }

  void AddCase(const v1::TestCase& test) {
    AddLines(test.name(), kTellingName);
    AddLines(test.input());
    AddLines(test.expected());
    std::string input = Plain(test.input()), expected = Plain(test.expected());
    const bool shown = seen_.find(input) != std::string::npos;
    if (shown || input.empty() || expected.empty() || input.size() > kTellingBytes) return;
    if (secrets_.pairs.size() < kSecretLinesMax) {
      secrets_.pairs.push_back({std::move(input), std::move(expected)});
    }
  }

  void AddFiles(const google::protobuf::RepeatedPtrField<v1::File>& files) {
    for (const v1::File& file : files) AddLines(file.content());
  }

  TaskSecrets Take() && { return std::move(secrets_); }

 private:
  std::string seen_;
  TaskSecrets secrets_;
};

// Where `part` stands in `all` at or behind `from`; the place behind it, or 0.
size_t Behind(const std::vector<std::string>& all, const std::vector<std::string>& part,
              size_t from) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
  const auto at = std::search(begin, all.end(), part.begin(), part.end());
  return at == all.end() ? 0 : static_cast<size_t>(at - all.begin()) + part.size();
}

// Tests that a line tells: the input, and behind it the output.
bool TellsTests(const std::string& body, const std::vector<TaskSecrets::Pair>& pairs) {
  std::vector<std::vector<std::string>> lines;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    lines.push_back(WordsOf(std::string_view(body).substr(at, end - at)));
    at = end + 1;
  }
  size_t told = 0;
  for (const TaskSecrets::Pair& pair : pairs) {
    const std::vector<std::string> input = WordsOf(pair.input), expected = WordsOf(pair.expected);
    if (input.empty() || expected.empty()) continue;
    const bool found = std::any_of(lines.begin(), lines.end(), [&](const auto& line) {
      const size_t behind = Behind(line, input, 0);
      return behind != 0 && Behind(line, expected, behind) != 0;
    });
    if (found) told += input.size() + expected.size();
    if (told >= kTellingWords) return true;
  }
  return false;
}

}  // namespace

TaskSecrets SecretsOf(const v1::Task& task, const std::vector<std::string>& seen) {
  std::vector<std::string> known = seen;
  known.push_back(task.prompt());
  for (const v1::File& file : task.files()) known.push_back(file.content());
  for (const v1::File& file : task.examples().harness()) known.push_back(file.content());
  for (const v1::TestCase& test : task.examples().cases()) {
    known.push_back(test.name() + "\n" + test.input() + "\n" + test.expected());
  }
  SecretCollector secrets(known);
  const v1::Grading& grading = task.grading();
  secrets.AddFiles(grading.harness());
  secrets.AddFiles(grading.canary());
  for (const v1::TestCase& test : grading.cases()) secrets.AddCase(test);
  for (const std::string& name : grading.fail_to_pass()) secrets.AddLines(name, kTellingName);
  for (const std::string& name : grading.pass_to_pass()) secrets.AddLines(name, kTellingName);
  secrets.AddLines(grading.specification().source());
  secrets.AddFiles(task.solution().files());
  secrets.AddLines(task.solution().patch());
  secrets.AddLines(task.solution().answer());
  return std::move(secrets).Take();
}

Result<SkillGuard> SkillGuard::Make(const std::vector<std::string>& redact) {
  TM_ASSIGN_OR_RETURN(Redaction redaction, Redaction::Make(redact));
  SkillGuard guard(std::move(redaction));
  for (const WrongShape& shape : kWrongShapes) {
    auto regex = TextRegex::FromPcre2(shape.pattern);
    TM_CHECK(regex.ok(), std::string(shape.what) + ": " + regex.status().message());
    guard.shapes_.push_back({shape.what, std::move(*regex)});
  }
  return guard;
}

Status SkillGuard::Check(const SkillText& skill, const TaskSecrets& secrets) const {
  const std::string text = skill.name + "\n" + skill.description + "\n" + skill.body;
  if (!IsUtf8(text)) return Invalid("it is no UTF-8");
  std::string cleaned = text;
  SecretSet found;
  if (redaction_.Clean(cleaned, found) > 0) return Invalid("it holds a secret");
  for (const Shape& shape : shapes_) {
    const TextRegex::Found match = shape.regex.Find(text, 0);
    if (match.gave_up) return Invalid("it cannot be searched");
    if (match.match) return Invalid(shape.what);
  }
  const std::string plain = Plain(text);
  for (const std::string& line : secrets.lines) {
    if (plain.find(line) != std::string::npos) {
      return Invalid("it says what only the task's tests know");
    }
  }
  if (TellsTests(text, secrets.pairs))
    return Invalid("it tells inputs and outputs of hidden tests");
  return Ok();
}

}  // namespace tidemill
