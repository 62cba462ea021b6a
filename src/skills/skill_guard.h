// What no skill may say, whoever wrote it: a secret, what only the tests of a task know, words that
// speak to a judge or open a turn. A skill goes into prompts of later episodes, and what they write
// goes to judges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "live/redaction.h"
#include "model/text_regex.h"
#include "proto/tidemill.pb.h"
#include "skills/skill_text.h"

namespace tidemill {

// What a task hides from its agent and what it shows.
struct TaskSecrets {
  std::vector<std::string> lines;  // of hidden files, inputs, outputs and names that tell something
  struct Pair {
    std::string input, expected;  // of a test; each a few words
  };
  std::vector<Pair> pairs;
};
// `seen`: what episodes were shown or wrote themselves, which is no secret.
TaskSecrets SecretsOf(const v1::Task& task, const std::vector<std::string>& seen);

// Immutable, thread-safe.
class SkillGuard {
 public:
  // `redact`: patterns of secrets besides the built-in ones, as live.redact. kInvalid names one
  // that is wrong.
  static Result<SkillGuard> Make(const std::vector<std::string>& redact);

  // kInvalid says what is wrong, and never the secret itself.
  Status Check(const SkillText& skill, const TaskSecrets& secrets) const;

 private:
  struct Shape {
    const char* what;
    TextRegex regex;
  };
  explicit SkillGuard(Redaction redaction) : redaction_(std::move(redaction)) {}

  Redaction redaction_;
  std::vector<Shape> shapes_;
};

}  // namespace tidemill
