// The built-in family of tasks "cfunc": write the body of `int f(int a,int b)` from a few examples
// of what it returns. seed -> problems (an expression and its examples) -> prompt, answer and
// feedback as text.
//
// One problem as the model sees it, with "\n" for the end of a line:
//   int f(int a,int b) at (0,1) .. (5,5) is 1 .. 5 f(6,-1) is 6\nreturn a<b?b:a<|end|>
// The first lexeme holds inputs that are the same in every prompt. It is one token, and so are each
// value (" 5"), each other call (" f(6,-1) is") and each character of the answer (cfunc_vocab.h).
// Where the first answer fails, an example that the prompt did not show follows it:
//   .. a<b?b:5<|end|><|fail|> f(4,1) is 4\nreturn a<b?b:a<|end|>
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "testbeds/cfunc_expr.h"
#include "testbeds/testbeds.h"

namespace tidemill {

struct CfuncExample {
  int a;
  int b;
  int value;
};

struct CfuncProblem {
  Expr expr;                          // the reference solution
  int level = 0;                      // difficulty, see cfunc_expr.h
  uint64_t behaviour = 0;             // BehaviourOf(expr)
  std::vector<CfuncExample> shown;    // in the prompt: those of the common inputs first
  std::vector<CfuncExample> further;  // not in the prompt; a failing one is shown as feedback
  std::vector<CfuncExample> hidden;   // never shown
};

// Which half of the behaviours to draw from. A behaviour's hash decides, so that sets of any size
// and seed never share one across the halves, while both follow the same grammar.
enum class CfuncSplit { kTrain, kHeldout };

struct CfuncOptions {
  uint64_t count = 0;
  uint64_t seed = 0;
  CfuncSplit split = CfuncSplit::kTrain;
  // Of levels 1, 2, ..: about as the number of functions each has. A level with few of them that
  // came often would be learned by heart, and nothing from it would carry over to functions held
  // out.
  std::vector<double> level_weights = {0.5, 5, 6, 80};
};

inline constexpr uint64_t kCfuncCountMax = 1'000'000;
// Inputs shown in every prompt, in this order: as many on either side of any comparison as few can
// be.
// clang-format off
inline constexpr std::array<ProbeInput, 12> kCfuncCommonInputs = {{
    {0, 1}, {1, 0}, {0, 4}, {4, 0}, {1, 3}, {3, 1}, {2, 2}, {2, 5}, {5, 2}, {3, 4}, {4, 3}, {5, 5}}};
// clang-format on
inline constexpr int kCfuncCommon = static_cast<int>(kCfuncCommonInputs.size());
// Then inputs that differ from prompt to prompt, so that a prompt is not the function's name.
inline constexpr int kCfuncVaried = 2;
inline constexpr int kCfuncShown = kCfuncCommon + kCfuncVaried;
inline constexpr int kCfuncFurther = 8;
inline constexpr int kCfuncHidden = 20;
// Inputs of examples that are shown lie in this range, so that each pair is one token ..
inline constexpr int kCfuncInputMin = -2;
inline constexpr int kCfuncInputMax = 6;
// .. and so do outputs; an example beyond is not shown.
inline constexpr int kCfuncOutputMax = 40;
// Inputs of hidden tests lie in -kCfuncHiddenBound .. kCfuncHiddenBound.
inline constexpr int kCfuncHiddenBound = 9;

// One in this many behaviours is held out.
inline constexpr uint64_t kCfuncHeldoutShare = 8;
CfuncSplit SplitOf(uint64_t behaviour);

// `count` problems in an order drawn from the seed. No two behave alike until a level has no
// further behaviour to offer; from then on a behaviour comes again with other examples. kInvalid:
// options no set can meet, in words.
Result<std::vector<CfuncProblem>> GenerateCfunc(const CfuncOptions& options);

// Lexemes, as they stand in prompts: the signature with the common inputs, " f(2,-1) is", " 1",
// "\nreturn ".
std::string CfuncSignature();
inline constexpr char kCfuncReturn[] = "\nreturn ";
inline constexpr char kCfuncEnd[] = "<|end|>";
inline constexpr char kCfuncFail[] = "<|fail|>";
std::string CfuncCallText(int a, int b);
std::string CfuncValueText(int value);

// " f(2,-1) is 1"
std::string CfuncExampleText(const CfuncExample& example);
// From the signature to "return ".
std::string CfuncPrompt(const CfuncProblem& problem);
// The feedback on a wrong answer: the failing example and "return " again.
std::string CfuncFeedback(const CfuncExample& failing);

// Enough for the form of a second turn to be learned.
inline constexpr double kCfuncSecondTurnShare = 0.1;

struct CfuncAuthor {
  // Demonstrations that show a wrong first answer, an example it fails and then the right one; only
  // the right one is the completion.
  double second_turn_share = kCfuncSecondTurnShare;
  // Demonstrations whose answer is wrong: an operator, operand or constant of it is another one.
  double slip_share = 0;
};

// One demonstration for each problem.
std::vector<Demonstration> DemonstrateCfunc(const std::vector<CfuncProblem>& problems,
                                            const CfuncAuthor& author, uint64_t seed);

}  // namespace tidemill
