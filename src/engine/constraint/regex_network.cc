#include "engine/constraint/regex_network.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint/text_reader.h"

namespace tidemill {
namespace {

constexpr int64_t kUnbounded = -1;
constexpr int64_t kRepeatsMax = 100'000;

struct RegexNode {
  enum class Kind : uint8_t { kCharacter, kSequence, kChoice, kRepeat, kStart, kEnd };
  Kind kind = Kind::kSequence;
  CharacterSet set{};
  std::vector<RegexNode> parts{};
  int64_t least = 1, most = 1;  // of kRepeat
};

CharacterSet Digits() {
  CharacterSet set;
  set.Add('0', '9');
  return set;
}

CharacterSet WordCharacters() {
  CharacterSet set = Digits();
  set.Add('a', 'z');
  set.Add('A', 'Z');
  set.Add('_', '_');
  return set;
}

// Those that all readers take for a space.
CharacterSet Spaces() {
  CharacterSet set;
  set.Add('\t', '\r');
  set.Add(' ', ' ');
  return set;
}

// Those that any reader takes for one.
CharacterSet AnySpaces() {
  CharacterSet set = Spaces();
  set.Add(0x1C, 0x1F);
  set.Add(0x85, 0x85);
  set.Add(0xA0, 0xA0);
  set.Add(0x1680, 0x1680);
  set.Add(0x2000, 0x200A);
  set.Add(0x2028, 0x2029);
  set.Add(0x202F, 0x202F);
  set.Add(0x205F, 0x205F);
  set.Add(0x3000, 0x3000);
  set.Add(0xFEFF, 0xFEFF);
  return set;
}

CharacterSet OneCharacter(uint32_t c) {
  CharacterSet set;
  set.Add(c, c);
  return set;
}

class RegexParser {
 public:
  RegexParser(std::string_view pattern, const ConstraintLimits& limits)
      : reader_(pattern), limits_(limits) {}

  Result<RegexNode> Parse() {
    RegexNode node = Choice(0);
    if (!reader_.failed() && !reader_.AtEnd()) reader_.Fail("\")\" closes nothing");
    if (reader_.failed()) return Invalid(reader_.error());
    return node;
  }

 private:
  RegexNode Choice(size_t depth) {
    RegexNode choice{.kind = RegexNode::Kind::kChoice};
    if (depth > limits_.depth) {
      reader_.Fail("groups are nested too deep");
      return choice;
    }
    do {
      choice.parts.push_back(Sequence(depth));
    } while (!reader_.failed() && reader_.Take('|'));
    return choice;
  }

  RegexNode Sequence(size_t depth) {
    RegexNode sequence;
    while (!reader_.failed() && !reader_.AtEnd() && !reader_.Is('|') && !reader_.Is(')')) {
      sequence.parts.push_back(Quantified(depth));
    }
    return sequence;
  }

  RegexNode Quantified(size_t depth) {
    RegexNode node = Atom(depth);
    if (reader_.failed()) return node;
    const std::optional<std::pair<int64_t, int64_t>> times = Times();
    if (!times || reader_.failed()) return node;
    if (node.kind == RegexNode::Kind::kStart || node.kind == RegexNode::Kind::kEnd) {
      reader_.Fail("an anchor is repeated");
      return node;
    }
    if (Times()) reader_.Fail("a quantifier follows a quantifier");
    RegexNode repeat{.kind = RegexNode::Kind::kRepeat,
                     .parts = {},
                     .least = times->first,
                     .most = times->second};
    repeat.parts.push_back(std::move(node));
    return repeat;
  }

  // nullopt: no quantifier follows.
  std::optional<std::pair<int64_t, int64_t>> Times() {
    std::optional<std::pair<int64_t, int64_t>> times;
    if (reader_.Take('*')) {
      times = {0, kUnbounded};
    } else if (reader_.Take('+')) {
      times = {1, kUnbounded};
    } else if (reader_.Take('?')) {
      times = {0, 1};
    } else if (reader_.Is('{')) {
      times = Counted();
    }
    if (!times || reader_.failed()) return times;
    if (reader_.Take('?')) return times;  // lazy: the same texts
    if (reader_.Is('+')) reader_.Fail("possessive quantifiers are not supported");
    return times;
  }

  std::optional<std::pair<int64_t, int64_t>> Counted() {
    const size_t at = reader_.at();
    reader_.Take('{');
    if (reader_.Is(',')) {
      // A character to some readers, a count to others.
      const size_t comma = reader_.at();
      reader_.Take(',');
      if (reader_.Number(kRepeatsMax) && reader_.Is('}')) {
        reader_.Fail("a repetition without its least number is not supported: write {0,n}");
      }
      reader_.GoTo(comma);
    }
    const std::optional<int64_t> least = reader_.Number(kRepeatsMax);
    std::optional<int64_t> most = least;
    if (least && reader_.Take(',')) {
      most = reader_.Is('}') ? std::optional<int64_t>(kUnbounded) : reader_.Number(kRepeatsMax);
    }
    if (!least || !most || !reader_.Take('}')) {
      // As everywhere a brace that begins no count is a character.
      if (!reader_.failed()) reader_.GoTo(at);
      return std::nullopt;
    }
    if (*most != kUnbounded && *most < *least) reader_.Fail("a repetition's bounds are reversed");
    return std::pair(*least, *most);
  }

  RegexNode Atom(size_t depth) {
    if (reader_.Take('(')) return Group(depth);
    if (reader_.Take('[')) return Character(Class());
    if (reader_.Take('^')) return {.kind = RegexNode::Kind::kStart};
    if (reader_.Take('$')) return {.kind = RegexNode::Kind::kEnd};
    if (reader_.Take('.')) {
      CharacterSet line;
      line.Add('\n', '\n');
      line.Add('\r', '\r');
      line.Add(0x2028, 0x2029);
      return Character(line.Others());
    }
    if (reader_.Take('\\')) return Character(Escape(/*in_class=*/false));
    if (reader_.Is('*') || reader_.Is('+') || reader_.Is('?')) {
      reader_.Fail("a quantifier follows nothing");
      return {};
    }
    return Character(OneCharacter(reader_.Character()));
  }

  static RegexNode Character(CharacterSet set) {
    return {.kind = RegexNode::Kind::kCharacter, .set = std::move(set)};
  }

  RegexNode Group(size_t depth) {
    if (reader_.Take('?')) {
      if (reader_.Take(':')) {
      } else if (reader_.Is('=') || reader_.Is('!')) {
        reader_.Fail("look-ahead is not supported");
      } else if (reader_.Take('P') || reader_.Is('<')) {
        reader_.Take('<');
        if (reader_.Is('=') || reader_.Is('!')) reader_.Fail("look-behind is not supported");
        while (!reader_.failed() && !reader_.AtEnd() && !reader_.Is('>')) (void)reader_.Character();
        if (!reader_.Take('>')) reader_.Fail("the name of a group is not closed");
      } else {
        reader_.Fail("flags inside of a pattern are not supported");
      }
    }
    RegexNode node = Choice(depth + 1);
    if (!reader_.failed() && !reader_.Take(')')) reader_.Fail("a group is not closed");
    return node;
  }

  CharacterSet Class() {
    CharacterSet set, left_out;  // of a class of others, what some reader leaves out
    const bool others = reader_.Take('^');
    bool spaces = false, no_spaces = false, first = true;
    while (!reader_.failed() && (first || !reader_.Is(']'))) {
      if (reader_.AtEnd()) {
        reader_.Fail("a class is not closed");
        break;
      }
      if (first && reader_.Is(']')) break;  // [] takes nothing, [^] everything
      first = false;
      const bool space = reader_.Is('\\') && reader_.IsSecond('s');
      const bool no_space = reader_.Is('\\') && reader_.IsSecond('S');
      spaces = spaces || space;
      no_spaces = no_spaces || no_space;
      if (space) left_out.Add(AnySpaces());
      if (no_space) left_out.Add(Spaces().Others());
      bool single = true;
      const CharacterSet low = ClassPart(single);
      if (!single || !reader_.Is('-') || reader_.IsSecond(']')) {
        set.Add(low);
        continue;
      }
      reader_.Take('-');
      const CharacterSet high = ClassPart(single);
      if (reader_.failed()) break;
      const uint32_t from = low.Ranges()[0].first;
      const uint32_t to = high.Ranges().empty() ? 0 : high.Ranges()[0].first;
      if (!single || to < from) {
        reader_.Fail("a range of a class is reversed");
        break;
      }
      set.Add(from, to);
    }
    reader_.Take(']');
    if (spaces && no_spaces) set.Add(0, CharacterSet::kLast);
    if (!others) return set;
    set.Add(left_out);
    return set.Others();
  }

  CharacterSet ClassPart(bool& single) {
    single = true;
    if (!reader_.Take('\\')) return OneCharacter(reader_.Character());
    CharacterSet set = Escape(/*in_class=*/true);
    const auto ranges = set.Ranges();
    single = ranges.size() == 1 && ranges[0].first == ranges[0].second;
    return set;
  }

  CharacterSet Escape(bool in_class) {
    if (reader_.AtEnd()) {
      reader_.Fail("a backslash stands at the end");
      return {};
    }
    const uint32_t c = reader_.Character();
    switch (c) {
      case 'd':
        return Digits();
      case 'D':
        return Digits().Others();
      case 'w':
        return WordCharacters();
      case 'W':
        return WordCharacters().Others();
      case 's':
        return Spaces();
      case 'S':
        return AnySpaces().Others();
      case 'n':
        return OneCharacter('\n');
      case 'r':
        return OneCharacter('\r');
      case 't':
        return OneCharacter('\t');
      case 'f':
        return OneCharacter('\f');
      case 'v':
        return OneCharacter('\v');
      case '0':
        if (!reader_.AtEnd() && reader_.IsDigit()) reader_.Fail("octal escapes are not supported");
        return OneCharacter(0);
      case 'c':
        return OneCharacter(Letter() % 32);
      case 'x':
        return OneCharacter(reader_.Hex(2));
      case 'u':
        return OneCharacter(CodePoint());
      default:
        break;
    }
    if (c == 'b' && in_class) return OneCharacter('\b');
    if (c == 'b' || c == 'B') reader_.Fail("word boundaries are not supported");
    if (c >= '1' && c <= '9') reader_.Fail("references to groups are not supported");
    if (c == 'p' || c == 'P') reader_.Fail("classes of Unicode properties are not supported");
    if (IsLetter(c)) reader_.Fail("this escape is not supported");
    return OneCharacter(c);
  }

  static bool IsLetter(uint32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  uint32_t Letter() {
    const uint32_t c = reader_.Character();
    if (!IsLetter(c)) reader_.Fail("\"\\c\" stands before a letter");
    return c;
  }

  uint32_t CodePoint() {
    if (!reader_.Take('{')) {
      const uint32_t first = reader_.Hex(4);
      if (first < 0xD800 || first > 0xDBFF) return first;
      if (!reader_.Take('\\') || !reader_.Take('u')) {
        reader_.Fail("half of a surrogate pair is no character");
        return 0;
      }
      const uint32_t second = reader_.Hex(4);
      if (second < 0xDC00 || second > 0xDFFF) {
        reader_.Fail("half of a surrogate pair is no character");
        return 0;
      }
      return 0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF);
    }
    uint32_t value = 0;
    while (!reader_.failed() && !reader_.Is('}') && !reader_.AtEnd() && value <= 0x10FFFF) {
      value = value * 16 + reader_.Hex(1);
    }
    if (!reader_.Take('}') || value > CharacterSet::kLast) reader_.Fail("no code point");
    return std::min(value, CharacterSet::kLast);
  }

  TextReader reader_;
  const ConstraintLimits& limits_;
};

class RegexWriter {
 public:
  RegexWriter(NetworkBuilder& builder, const RegexUse& use) : builder_(builder), use_(use) {}

  // The pattern as a whole: anchors stand at the ends of its alternatives or of groups there.
  Status Write(const RegexNode& node, NetworkState from, NetworkState to) {
    Part(node, from, to, {.start = true, .end = true});
    if (misplaced_) return Invalid("an anchor inside of the pattern is not supported");
    return Ok();
  }

 private:
  // Whether the part stands at the start or the end of the whole, with nothing around it yet.
  struct Edges {
    bool start = false, end = false;
  };

  static bool IsAnchor(const RegexNode& node) {
    return node.kind == RegexNode::Kind::kStart || node.kind == RegexNode::Kind::kEnd;
  }

  void Part(const RegexNode& node, NetworkState from, NetworkState to, Edges edges) {
    if (builder_.full()) return;
    if (node.kind == RegexNode::Kind::kChoice) {
      for (const RegexNode& part : node.parts) Part(part, from, to, edges);
      return;
    }
    if (node.kind == RegexNode::Kind::kSequence) return Sequence(node, from, to, edges);
    // What is neither an alternative nor a sequence has no anchor of its own.
    if (IsAnchor(node)) {
      misplaced_ = misplaced_ || !(node.kind == RegexNode::Kind::kStart ? edges.start : edges.end);
      return builder_.Free(from, to);
    }
    from = edges.start ? Around(from) : from;
    const NetworkState end = edges.end && !use_.whole ? builder_.NewState() : to;
    Inner(node, from, end);
    if (end != to) builder_.Free(Around(end), to);
  }

  // Anything may stand here where the pattern has no anchor and need not match the whole.
  NetworkState Around(NetworkState from) {
    if (use_.whole) return from;
    const NetworkState loop = builder_.NewState();
    builder_.Free(from, loop);
    CharacterSet all;
    all.Add(0, CharacterSet::kLast);
    if (use_.writing == Writing::kJson) {
      AddJsonCharacter(builder_, loop, loop);
    } else {
      AddCharacter(builder_, loop, all, Writing::kPlain, loop);
    }
    return loop;
  }

  void Sequence(const RegexNode& node, NetworkState from, NetworkState to, Edges edges) {
    size_t first = 0, last = node.parts.size();
    bool anchored_start = false, anchored_end = false;
    while (first < last && node.parts[first].kind == RegexNode::Kind::kStart) {
      misplaced_ = misplaced_ || !edges.start;
      anchored_start = true;
      ++first;
    }
    while (last > first && node.parts[last - 1].kind == RegexNode::Kind::kEnd) {
      misplaced_ = misplaced_ || !edges.end;
      anchored_end = true;
      --last;
    }
    const bool open_start = edges.start && !anchored_start;
    const bool open_end = edges.end && !anchored_end;
    if (first == last) {
      if (open_start || open_end) from = Around(from);
      return builder_.Free(from, to);
    }
    for (size_t i = first; i < last; ++i) {
      const NetworkState next = i + 1 == last ? to : builder_.NewState();
      const Edges part{.start = open_start && i == first, .end = open_end && i + 1 == last};
      Part(node.parts[i], from, next, part);
      from = next;
    }
  }

  // Without edges.
  void Inner(const RegexNode& node, NetworkState from, NetworkState to) {
    if (node.kind == RegexNode::Kind::kCharacter) {
      return AddCharacter(builder_, from, node.set, use_.writing, to);
    }
    if (node.kind != RegexNode::Kind::kRepeat) return Part(node, from, to, {});
    const RegexNode& part = node.parts[0];
    for (int64_t i = 0; i < node.least && !builder_.full(); ++i) {
      const NetworkState next = builder_.NewState();
      Part(part, from, next, {});
      from = next;
    }
    if (node.most == kUnbounded) {
      const NetworkState loop = builder_.NewState();
      builder_.Free(from, loop);
      Part(part, loop, loop, {});
      return builder_.Free(loop, to);
    }
    for (int64_t i = node.least; i < node.most && !builder_.full(); ++i) {
      builder_.Free(from, to);
      const NetworkState next = builder_.NewState();
      Part(part, from, next, {});
      from = next;
    }
    builder_.Free(from, to);
  }

  NetworkBuilder& builder_;
  const RegexUse use_;
  bool misplaced_ = false;
};

}  // namespace

Status AddRegex(NetworkBuilder& builder, NetworkState from, std::string_view pattern,
                const RegexUse& use, NetworkState to) {
  TM_ASSIGN_OR_RETURN(const RegexNode node, RegexParser(pattern, builder.limits()).Parse());
  // A loop of the pattern must not lead back to before it or behind it.
  const NetworkState first = builder.NewState(), last = builder.NewState();
  builder.Free(from, first);
  builder.Free(last, to);
  return RegexWriter(builder, use).Write(node, first, last);
}

}  // namespace tidemill
