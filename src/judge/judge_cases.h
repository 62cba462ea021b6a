// Labelled cases for judges, made from programs whose results are known: a small C function is
// drawn, an answer to it is right or wrong, and an interpreter runs both. The tool's output and the
// user's reply follow from what really happened; so does the label.
#pragma once

#include <cstdint>
#include <string>

#include "core/random.h"
#include "judge/certificate.h"

namespace tidemill {

struct JudgeCaseOptions {
  uint64_t count = 1000;
  uint64_t seed = 1;
  double misleading = 0.3;  // share whose words point the wrong way
  double instructing = 0;   // share that tries to tell the judge what to say
  std::string task = "next_state";
  // {"prompt", "completion"} of the compact template, for training. Some ask for a number in the
  // texts instead of the verdict.
  bool demonstrations = false;
};

// The same options give the same lines.
class JudgeCaseWriter {
 public:
  // `tracer` runs functions.
  JudgeCaseWriter(JudgeCaseOptions options, CodeTracer tracer);
  // One line of JSON, without its end.
  std::string Next();

 private:
  struct Program {
    std::string wanted, given;      // expressions of a and b
    int64_t a = 0, b = 0;           // the example
    int64_t right = 0, result = 0;  // what they give there
  };
  struct Case {
    std::string prompt, turn, next, label, kind = "plain";
    std::string wanted, got;  // the numbers that decide, where the texts tell them
  };
  Program DrawProgram();
  std::string DrawExpression(int depth);
  Case DrawNextState();
  Case DrawProcess();
  std::string OfTool(const Program& program);
  std::string OfUser(const Program& program);
  void Break(const Program& program, Case& one);
  void Mislead(const Program& program, Case& one);
  void Instruct(Case& one);
  std::string Demonstrate(const Case& one);
  template <size_t N>
  std::string Pick(const char* const (&words)[N]) {
    return words[random_.Below(N)];
  }

  const JudgeCaseOptions options_;
  const CodeTracer tracer_;
  Random random_;
  uint64_t made_ = 0;
};

}  // namespace tidemill
