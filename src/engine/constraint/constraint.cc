#include "engine/constraint/constraint.h"

#include <algorithm>
#include <string_view>

#include "engine/constraint/character_set.h"
#include "engine/constraint/gbnf_network.h"
#include "engine/constraint/json_schema_network.h"
#include "engine/constraint/regex_network.h"

namespace tidemill {
namespace {

constexpr size_t kPartsDepth = 16;

// How much of `mark` a text has at its end after each byte: the automaton of Knuth, Morris and
// Pratt. `found`: where it goes with the whole mark; negative: nowhere.
void AddSearch(NetworkBuilder& builder, const std::vector<NetworkState>& states,
               std::string_view mark, NetworkState found) {
  std::vector<std::vector<size_t>> next(mark.size(), std::vector<size_t>(256, 0));
  size_t fallback = 0;
  for (size_t i = 0; i < mark.size(); ++i) {
    if (i > 0) next[i] = next[fallback];
    const auto byte = static_cast<uint8_t>(mark[i]);
    if (i > 0) fallback = next[fallback][byte];
    next[i][byte] = i + 1;
  }
  for (size_t i = 0; i < mark.size(); ++i) {
    for (size_t low = 0; low < 256;) {
      size_t high = low;
      while (high < 255 && next[i][high + 1] == next[i][low]) ++high;
      const bool whole = next[i][low] == mark.size();
      const NetworkState to = whole ? found : states[next[i][low]];
      if (to >= 0) {
        builder.Bytes(states[i], static_cast<uint8_t>(low), static_cast<uint8_t>(high), to);
      }
      low = high + 1;
    }
  }
}

void AddFree(NetworkBuilder& builder, NetworkState from, const ConstraintPart& part,
             NetworkState to) {
  std::vector<NetworkState> states;
  for (size_t i = 0; i < part.text.size(); ++i) states.push_back(builder.NewState());
  builder.Free(from, states[0]);
  const bool until = part.kind == ConstraintPart::Kind::kUntil;
  AddSearch(builder, states, part.text, until ? to : -1);
  if (until) return;
  for (const NetworkState state : states) builder.Free(state, to);
}

Status AddPart(NetworkBuilder& builder, NetworkState from, const ConstraintPart& part,
               NetworkState to, size_t depth) {
  if (depth > kPartsDepth) return Invalid("it is nested too deep");
  if (part.text.size() > builder.limits().text_bytes) {
    return Invalid("it is larger than " + std::to_string(builder.limits().text_bytes) + " bytes");
  }
  switch (part.kind) {
    case ConstraintPart::Kind::kText:
      builder.TextTo(from, part.text, to);
      return Ok();
    case ConstraintPart::Kind::kSchema:
      return AddJsonSchema(builder, from, part.schema, to);
    case ConstraintPart::Kind::kObject:
      AddJsonObject(builder, from, to);
      return Ok();
    case ConstraintPart::Kind::kRegex:
      return AddRegex(builder, from, part.text, {}, to);
    case ConstraintPart::Kind::kGrammar:
      return AddGbnf(builder, from, part.text, to);
    case ConstraintPart::Kind::kUntil:
    case ConstraintPart::Kind::kWithout:
      AddFree(builder, from, part, to);
      return Ok();
    case ConstraintPart::Kind::kChoice: {
      std::vector<std::string> texts;
      for (const ConstraintPart& one : part.parts) {
        if (one.kind == ConstraintPart::Kind::kText) {
          texts.push_back(one.text);
        } else {
          TM_RETURN_IF_ERROR(AddPart(builder, from, one, to, depth + 1));
        }
      }
      AddTexts(builder, from, std::move(texts), to);
      return Ok();
    }
    case ConstraintPart::Kind::kSequence:
    case ConstraintPart::Kind::kRepeat:
      break;
  }
  const bool repeat = part.kind == ConstraintPart::Kind::kRepeat;
  const NetworkState begin = builder.NewState();
  builder.Free(from, begin);
  NetworkState at = begin;
  for (const ConstraintPart& one : part.parts) {
    const NetworkState next = builder.NewState();
    TM_RETURN_IF_ERROR(AddPart(builder, at, one, next, depth + 1));
    at = next;
  }
  if (repeat) builder.Free(at, begin);
  builder.Free(repeat ? begin : at, to);
  return Ok();
}

// Two constraints with one key are the same.
void AppendKey(const ConstraintPart& part, std::string& key) {
  key += static_cast<char>('0' + static_cast<int>(part.kind));
  const std::string schema =
      part.kind == ConstraintPart::Kind::kSchema
          ? part.schema.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
          : std::string();
  for (const std::string_view text : {std::string_view(part.text), std::string_view(schema)}) {
    key += std::to_string(text.size()) + ":";
    key += text;
  }
  key += "(";
  for (const ConstraintPart& one : part.parts) AppendKey(one, key);
  key += ")";
}

}  // namespace

Result<ByteNetwork> CompileConstraint(const ConstraintPart& part, const ConstraintLimits& limits,
                                      const NetworkBuilder::ByteSet& writable) {
  NetworkBuilder builder(limits, writable);
  const NetworkRule root = builder.NewRule();
  TM_RETURN_IF_ERROR(AddPart(builder, builder.StartOf(root), part, builder.EndOf(root), 0));
  return builder.Finish(root);
}

Result<std::shared_ptr<const Constraint>> ConstraintCompiler::Compile(const ConstraintPart& part,
                                                                      const std::string& kind) {
  std::string key = kind + " ";
  AppendKey(part, key);
  std::shared_ptr<const ByteNetwork> network;
  {
    MutexLock lock(mutex_);
    const auto known =
        std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.key == key; });
    if (known != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, known);
      if (!known->constraint->automaton->worn()) return known->constraint;
      network = known->network;
      kept_.pop_front();
    }
  }
  if (!network) {
    TM_ASSIGN_OR_RETURN(ByteNetwork made,
                        CompileConstraint(part, limits_, vocabulary_->single_bytes()));
    network = std::make_shared<const ByteNetwork>(std::move(made));
  }
  auto automaton = std::make_shared<ConstraintAutomaton>(network, vocabulary_);
  if (automaton->start() == ConstraintAutomaton::kDead) {
    return Invalid("it leaves too many ways open at once");
  }
  (void)automaton->Mask(automaton->start());
  const auto constraint =
      std::make_shared<const Constraint>(Constraint{std::move(automaton), vocabulary_, kind});
  const size_t bytes = key.size() + network->bytes();
  MutexLock lock(mutex_);
  kept_.push_front({std::move(key), std::move(network), constraint, bytes});
  MakeRoom();
  return constraint;
}

void ConstraintCompiler::MakeRoom() {
  size_t count = 0, bytes = 0;
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    bytes += it->bytes + it->constraint->automaton->bytes();
    if (++count <= kKeptMax && (count == 1 || bytes <= kKeptBytes)) continue;
    kept_.erase(it, kept_.end());
    return;
  }
}

void ConstraintMatcher::Take(TokenId token) {
  if (!on()) return;
  const std::vector<TokenId>& ends = constraint_->vocabulary->ends();
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
    broken_ = broken_ || (!over_ && !constraint_->automaton->Accepts(state_));
    over_ = true;
    return;
  }
  const std::string_view bytes = constraint_->vocabulary->Bytes(token);
  state_ =
      bytes.empty() ? ConstraintAutomaton::kDead : constraint_->automaton->Follow(state_, bytes);
}

std::shared_ptr<const TokenMask> ConstraintMatcher::Mask() {
  std::shared_ptr<const TokenMask> mask;
  if (!over_) mask = constraint_->automaton->Mask(state_);
  if (mask && mask->count() > 0) return mask;
  return std::make_shared<const TokenMask>(constraint_->vocabulary->ends());
}

}  // namespace tidemill
