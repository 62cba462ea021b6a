#include "engine/constraint/gbnf_network.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/constraint/character_set.h"
#include "engine/constraint/text_reader.h"

namespace tidemill {
namespace {

constexpr int64_t kUnboundedTimes = -1;
constexpr int64_t kTimesMax = 100'000;

struct GbnfNode {
  enum class Kind : uint8_t { kText, kCharacter, kRule, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;
  std::string text{};  // the text, or the rule's name
  CharacterSet set{};
  std::vector<GbnfNode> parts{};
  int64_t least = 1, most = 1;
};

void AppendUtf8(uint32_t c, std::string& to) {
  if (c < 0x80) {
    to.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    to.push_back(static_cast<char>(0xC0 | c >> 6));
    to.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    to.push_back(static_cast<char>(0xE0 | c >> 12));
    to.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    to.push_back(static_cast<char>(0xF0 | c >> 18));
    to.push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const ConstraintLimits& limits)
      : reader_(text), limits_(limits) {}

  Result<std::map<std::string, GbnfNode>> Parse() {
    std::map<std::string, GbnfNode> rules;
    Space(true);
    while (!reader_.failed() && !reader_.AtEnd()) {
      const std::string name = Name();
      if (name.empty()) reader_.Fail("the name of a rule is missing");
      Space(false);
      if (!reader_.failed() && !reader_.Take("::=")) reader_.Fail("\"::=\" is missing");
      Space(true);
      GbnfNode node = Choice(0);
      if (!reader_.failed() && !rules.emplace(name, std::move(node)).second) {
        reader_.Fail("the rule \"" + name + "\" is there twice");
      }
      if (!reader_.failed() && !reader_.AtEnd() && !reader_.Take('\n') && !reader_.Take('\r')) {
        reader_.Fail("a rule ends with its line");
      }
      Space(true);
    }
    if (reader_.failed()) return Invalid(reader_.error());
    if (!rules.contains("root")) return Invalid("there is no rule \"root\"");
    return rules;
  }

 private:
  // Blanks and comments; with `lines` also the ends of lines.
  void Space(bool lines) {
    while (!reader_.AtEnd()) {
      if (reader_.Take('#')) {
        while (!reader_.AtEnd() && !reader_.Is('\n')) reader_.GoTo(reader_.at() + 1);
      } else if (!reader_.Take(' ') && !reader_.Take('\t') &&
                 !(lines && (reader_.Take('\n') || reader_.Take('\r')))) {
        return;
      }
    }
  }

  bool AtName() const {
    for (char c = 'a'; c <= 'z'; ++c) {
      if (reader_.Is(c) || reader_.Is(static_cast<char>(c - 'a' + 'A'))) return true;
    }
    for (char c = '0'; c <= '9'; ++c) {
      if (reader_.Is(c)) return true;
    }
    return reader_.Is('-') || reader_.Is('_');
  }

  std::string Name() {
    std::string name;
    while (AtName()) name.push_back(static_cast<char>(reader_.Character()));
    return name;
  }

  GbnfNode Choice(size_t depth) {
    GbnfNode choice{.kind = GbnfNode::Kind::kChoice};
    if (depth > limits_.depth) {
      reader_.Fail("groups are nested too deep");
      return choice;
    }
    choice.parts.push_back(Sequence(depth));
    while (!reader_.failed() && reader_.Take('|')) {
      Space(true);
      choice.parts.push_back(Sequence(depth));
    }
    return choice;
  }

  // Behind a part: blanks, and ends of lines where the rule goes on behind them, which it does
  // unless another one begins there.
  void SpaceBehind(bool nested) {
    Space(nested);
    if (nested || !(reader_.Is('\n') || reader_.Is('\r'))) return;
    const size_t line = reader_.at();
    Space(true);
    const size_t more = reader_.at();
    if (!reader_.AtEnd()) {
      const bool named = !Name().empty();
      Space(false);
      if (!(named && reader_.Take("::="))) return reader_.GoTo(more);
    }
    reader_.GoTo(line);
  }

  GbnfNode Sequence(size_t depth) {
    GbnfNode sequence;
    const bool nested = depth > 0;
    while (!reader_.failed() && !reader_.AtEnd()) {
      GbnfNode part;
      if (reader_.Take('"')) {
        part = {.kind = GbnfNode::Kind::kText, .text = Text()};
      } else if (reader_.Take('[')) {
        part = {.kind = GbnfNode::Kind::kCharacter, .set = Class()};
      } else if (reader_.Take('.')) {
        part.kind = GbnfNode::Kind::kCharacter;
        part.set.Add(0, CharacterSet::kLast);
      } else if (reader_.Take('(')) {
        Space(true);
        part = Choice(depth + 1);
        if (!reader_.failed() && !reader_.Take(')')) reader_.Fail("a group is not closed");
      } else if (AtName()) {
        part = {.kind = GbnfNode::Kind::kRule, .text = Name()};
      } else {
        break;
      }
      Space(nested);
      sequence.parts.push_back(Repeated(std::move(part)));
      SpaceBehind(nested);
      if (++parts_ > limits_.states) reader_.Fail("it is too large");
    }
    return sequence;
  }

  GbnfNode Repeated(GbnfNode part) {
    int64_t least = 1, most = 1;
    if (reader_.Take('*')) {
      least = 0, most = kUnboundedTimes;
    } else if (reader_.Take('+')) {
      most = kUnboundedTimes;
    } else if (reader_.Take('?')) {
      least = 0;
    } else if (reader_.Take('{')) {
      const auto first = reader_.Number(kTimesMax);
      least = first.value_or(0);
      most = least;
      if (reader_.Take(',')) most = reader_.Number(kTimesMax).value_or(kUnboundedTimes);
      if (!reader_.Take('}') || (most != kUnboundedTimes && most < least)) {
        reader_.Fail("a repetition is {n}, {n,}, {n,m} or {0,m}");
      }
    } else {
      return part;
    }
    GbnfNode repeat{.kind = GbnfNode::Kind::kRepeat, .least = least, .most = most};
    repeat.parts.push_back(std::move(part));
    return repeat;
  }

  std::string Text() {
    std::string text;
    while (!reader_.failed() && !reader_.Take('"')) AppendUtf8(Character(), text);
    return text;
  }

  CharacterSet Class() {
    CharacterSet set;
    const bool others = reader_.Take('^');
    while (!reader_.failed() && !reader_.Take(']')) {
      const uint32_t low = Character();
      uint32_t high = low;
      if (reader_.Is('-') && !reader_.IsSecond(']')) {
        reader_.Take('-');
        high = Character();
      }
      if (high < low) reader_.Fail("a range of a class is reversed");
      set.Add(low, high);
    }
    return others ? set.Others() : set;
  }

  uint32_t Character() {
    const uint32_t c = Written();
    if (c > CharacterSet::kLast) reader_.Fail("no code point");
    if (c >= 0xD800 && c <= 0xDFFF) reader_.Fail("half of a surrogate pair is no character");
    return reader_.failed() ? 0 : c;
  }

  // One of a text or a class, written or escaped.
  uint32_t Written() {
    if (reader_.Is('\n')) reader_.Fail("a text or a class is not closed in its line");
    if (!reader_.Take('\\')) return reader_.Character();
    const uint32_t c = reader_.Character();
    switch (c) {
      case 'x':
        return reader_.Hex(2);
      case 'u':
        return reader_.Hex(4);
      case 'U':
        return reader_.Hex(8);
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      default:
        break;
    }
    const bool sign = c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
                      !(c >= 'A' && c <= 'Z');
    if (!sign) reader_.Fail("an unknown escape");
    return c;
  }

  TextReader reader_;
  const ConstraintLimits& limits_;
  size_t parts_ = 0;
};

class GbnfWriter {
 public:
  GbnfWriter(NetworkBuilder& builder, const std::map<std::string, GbnfNode>& rules)
      : builder_(builder) {
    for (const auto& [name, node] : rules) rules_.emplace(name, builder.NewRule());
    for (const auto& [name, node] : rules) {
      const NetworkRule rule = rules_.at(name);
      Part(node, builder.StartOf(rule), builder.EndOf(rule));
    }
  }

  NetworkRule root() const { return rules_.at("root"); }
  const std::string& missing() const { return missing_; }

 private:
  void Part(const GbnfNode& node, NetworkState from, NetworkState to) {
    if (builder_.full()) return;
    switch (node.kind) {
      case GbnfNode::Kind::kText:
        return builder_.TextTo(from, node.text, to);
      case GbnfNode::Kind::kCharacter:
        return AddCharacter(builder_, from, node.set, Writing::kPlain, to);
      case GbnfNode::Kind::kRule: {
        const auto rule = rules_.find(node.text);
        if (rule == rules_.end()) {
          missing_ = node.text;
        } else {
          builder_.Call(from, rule->second, to);
        }
        return;
      }
      case GbnfNode::Kind::kChoice:
        return Choice(node, from, to);
      case GbnfNode::Kind::kSequence:
        if (node.parts.empty()) return builder_.Free(from, to);
        for (size_t i = 0; i < node.parts.size(); ++i) {
          const NetworkState next = i + 1 == node.parts.size() ? to : builder_.NewState();
          Part(node.parts[i], from, next);
          from = next;
        }
        return;
      case GbnfNode::Kind::kRepeat:
        return Repeat(node, from, to);
    }
  }

  // Alternatives that are texts share what they begin with.
  void Choice(const GbnfNode& node, NetworkState from, NetworkState to) {
    std::vector<std::string> texts;
    for (const GbnfNode& part : node.parts) {
      const bool sequence = part.kind == GbnfNode::Kind::kSequence && part.parts.size() == 1;
      if (sequence && part.parts[0].kind == GbnfNode::Kind::kText) {
        texts.push_back(part.parts[0].text);
      } else {
        Part(part, from, to);
      }
    }
    AddTexts(builder_, from, std::move(texts), to);
  }

  void Repeat(const GbnfNode& node, NetworkState from, NetworkState to) {
    const GbnfNode& part = node.parts[0];
    for (int64_t i = 0; i < node.least && !builder_.full(); ++i) {
      const NetworkState next = builder_.NewState();
      Part(part, from, next);
      from = next;
    }
    if (node.most == kUnboundedTimes) {
      const NetworkState loop = builder_.NewState();
      builder_.Free(from, loop);
      Part(part, loop, loop);
      return builder_.Free(loop, to);
    }
    for (int64_t i = node.least; i < node.most && !builder_.full(); ++i) {
      builder_.Free(from, to);
      const NetworkState next = builder_.NewState();
      Part(part, from, next);
      from = next;
    }
    builder_.Free(from, to);
  }

  NetworkBuilder& builder_;
  std::map<std::string, NetworkRule> rules_;
  std::string missing_;
};

}  // namespace

Status AddGbnf(NetworkBuilder& builder, NetworkState from, std::string_view grammar,
               NetworkState to) {
  TM_ASSIGN_OR_RETURN(const auto rules, GbnfParser(grammar, builder.limits()).Parse());
  const GbnfWriter writer(builder, rules);
  if (!writer.missing().empty()) return Invalid("there is no rule \"" + writer.missing() + "\"");
  builder.Call(from, writer.root(), to);
  return Ok();
}

}  // namespace tidemill
