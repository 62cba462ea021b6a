// Labelled cases for judges, made from programs whose results are known: a small C function is
// drawn, an answer to it is right or wrong, and an interpreter runs both. The tool's output and the
// user's reply follow from what really happened; so does the label.
#pragma once

#include <cstdint>
#include <string>

#include "core/random.h"
#include "testbeds/testbeds.h"

namespace tidemill {

// The same options give the same lines.
class JudgeCaseWriter {
 public:
  explicit JudgeCaseWriter(JudgeCaseOptions options);
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
  Random random_;
  uint64_t made_ = 0;
};

}  // namespace tidemill
