// A constraint as a turn carries it: what its text may be, and how far it has come.
//
//   ConstraintPart -> ConstraintCompiler (cached) -> Constraint -> ConstraintMatcher of a sequence
//   -> TokenMask of the next draw
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "engine/constraint/byte_network.h"
#include "engine/constraint/constraint_automaton.h"
#include "engine/constraint/constraint_part.h"
#include "engine/constraint/token_vocabulary.h"

namespace tidemill {

// Immutable but for what its automaton learns; thread-safe.
struct Constraint {
  std::shared_ptr<ConstraintAutomaton> automaton;
  std::shared_ptr<const TokenVocabulary> vocabulary;
  std::string kind{};  // for records: v1::Sampling::constraint
};

// Puts the parts into one network. kInvalid says what cannot be done.
Result<ByteNetwork> CompileConstraint(const ConstraintPart& part, const ConstraintLimits& limits,
                                      const NetworkBuilder::ByteSet& writable);

// Compiles constraints for one vocabulary and keeps the last of them. Thread-safe.
class ConstraintCompiler {
 public:
  explicit ConstraintCompiler(std::shared_ptr<const TokenVocabulary> vocabulary,
                              const ConstraintLimits& limits = {})
      : vocabulary_(std::move(vocabulary)), limits_(limits) {}

  // The tokens that may come first are known when it returns.
  // `kind`: Constraint's.
  Result<std::shared_ptr<const Constraint>> Compile(const ConstraintPart& part,
                                                    const std::string& kind = {});

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<const ByteNetwork> network;
    std::shared_ptr<const Constraint> constraint;
    size_t bytes = 0;  // of the key and the network
  };
  static constexpr size_t kKeptMax = 64;
  static constexpr size_t kKeptBytes = size_t{512} << 20;

  // Forgets the ones unused the longest.
  void MakeRoom() TM_REQUIRES(mutex_);

  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const ConstraintLimits limits_;
  Mutex mutex_;
  std::list<Kept> kept_ TM_GUARDED_BY(mutex_);  // the last used first
};

// How far one turn has come. Belongs to one sequence.
class ConstraintMatcher {
 public:
  ConstraintMatcher() = default;
  explicit ConstraintMatcher(std::shared_ptr<const Constraint> constraint)
      : constraint_(std::move(constraint)),
        state_(constraint_ ? constraint_->automaton->start() : ConstraintAutomaton::kDead) {}

  bool on() const { return constraint_ != nullptr; }
  void Take(TokenId token);
  // The tokens that may follow. Where the text went astray (what was forced does not fit), or is
  // over, those that end a turn.
  std::shared_ptr<const TokenMask> Mask();
  // The text is none that fits and cannot become one: what was forced does not fit, or the
  // automaton has no room for what may follow.
  bool astray() const { return on() && (over_ ? broken_ : state_ == ConstraintAutomaton::kDead); }

 private:
  std::shared_ptr<const Constraint> constraint_;
  ConstraintAutomaton::StateId state_ = ConstraintAutomaton::kDead;
  bool over_ = false;
  bool broken_ = false;  // it was over before its end
};

}  // namespace tidemill
