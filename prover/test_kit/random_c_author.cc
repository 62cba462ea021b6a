#include <array>
#include <utility>

#include "prover/test_kit/random_c_patterns.h"
#include "prover/test_kit/random_c_tree.h"

namespace tidemill {
namespace {

using Piece = RandomPiece;
using Line = RandomLine;

constexpr std::array<const char*, 17> kTypes = {
    "int",           "int",      "int",      "int",     "unsigned", "long",
    "unsigned long", "short",    "char",     "int8_t",  "byte",     "bool",
    "uint16_t",      "uint32_t", "uint64_t", "int64_t", "long long"};

class Author {
 public:
  explicit Author(Random random) : random_(random) {}

  std::vector<Line> Function() {
    std::vector<Line> body;
    const int variables = Pick(1, 3);
    for (int i = 0; i < variables; ++i) Declare(body, true);
    if (random_.Chance(0.5)) DeclareArray(body);
    if (!arrays_.empty() && random_.Chance(0.2)) DeclarePointer(body);
    if (random_.Chance(0.15)) DeclareGrid(body);
    Lines(body, Pick(1, 3), 2);
    body.push_back({Line::kReturn, "", "", {Expression(2)}, {}});
    return body;
  }

  // Fills an array in a loop, works on it in further loops and gives what they found.
  std::vector<Line> LoopsAndArrays() {
    std::vector<Line> body;
    careful_ = true;
    const int length = Pick(4, 12);
    const std::string array = "t" + std::to_string(next_++), result = "s" + std::to_string(next_++);
    RandomCPatterns patterns(array, result, length);
    const std::string type = One({"int", "int", "int", "long", "short", "int8_t", "unsigned"});
    body.push_back({Line::kDeclare,
                    type + " " + array + "[" + std::to_string(length) + "]",
                    random_.Chance(0.3) ? "{}" : "",
                    {},
                    {}});
    if (body.back().update == "{}") body.back().parts.push_back(Number(0, 9));
    body.push_back({Line::kDeclare, "int " + result, "", {Number(0, 3)}, {}});
    names_.push_back("i");
    body.push_back(patterns.Fill(Small(Expression(2))));
    names_.pop_back();
    names_.push_back(result);
    writable_.push_back(result);
    arrays_.push_back({array, length, true});
    if (type == "int") int_array_ = array + ", " + std::to_string(length);
    const int more = Pick(1, 3);
    for (int i = 0; i < more; ++i) {
      body.push_back(patterns.Draw(random_));
      if (random_.Chance(0.4)) Lines(body, 1, 1);
    }
    body.push_back(patterns.Read(random_));
    Piece sum{Piece::kBinary, "+", {{Piece::kLeaf, result, {}}, Small(Expression(1))}};
    body.push_back({Line::kReturn, "", "", {std::move(sum)}, {}});
    return body;
  }

 private:
  struct Array {
    std::string name;
    int length = 0;
    bool may_miss = true;  // the sanitizer sees an index that is out of bounds
  };

  int Pick(int low, int high) { return static_cast<int>(random_.Between(low, high)); }
  std::string One(const std::vector<std::string>& of) { return of[random_.Below(of.size())]; }

  void Declare(std::vector<Line>& out, bool outermost) {
    // A name of an outer block hides it.
    const bool hides = !outermost && outer_ints_ > 0 && random_.Chance(0.1);
    const std::string name =
        hides ? ints_[random_.Below(outer_ints_)] : "v" + std::to_string(next_++);
    const std::string type = hides ? "int" : kTypes[random_.Below(kTypes.size())];
    const bool initialised = outermost || hides || careful_ || random_.Chance(0.95);
    out.push_back({Line::kDeclare, type + " " + name, "", {}, {}});
    if (hides) {
      outer_ints_ = 0;
      out.back().parts.push_back(Number(-9, 20));
      return;
    }
    if (initialised) out.back().parts.push_back(Expression(2));
    names_.push_back(name);
    writable_.push_back(name);
    if (type == "int") ints_.push_back(name);
  }

  void DeclareArray(std::vector<Line>& out) {
    const std::string name = "t" + std::to_string(next_++);
    const int length = 1 << Pick(2, 3);
    const std::string type = kTypes[random_.Below(kTypes.size())];
    const bool is_constant = random_.Chance(0.15);
    Line line{Line::kDeclare,
              (is_constant ? "static const " : "") + type + " " + name + "[" +
                  std::to_string(length) + "]",
              "{}",
              {},
              {}};
    const int values = Pick(1, length);
    for (int i = 0; i < values; ++i) {
      line.parts.push_back(is_constant ? Number(-99, 99) : Expression(1));
    }
    out.push_back(std::move(line));
    if (is_constant) {
      constant_ = {name, length, true};
      return;
    }
    if (type == "int") int_array_ = name + ", " + std::to_string(length);
    arrays_.push_back({name, length, true});
    array_types_.push_back(type);
  }

  // Into the array, so that every access through it is inside.
  void DeclarePointer(std::vector<Line>& out) {
    const std::string name = "p" + std::to_string(next_++);
    const int offset = Pick(0, arrays_[0].length - 2);
    Piece at{Piece::kLeaf, One({"&", ""}), {}};
    at.word = at.word == "&" ? "&" + arrays_[0].name + "[" + std::to_string(offset) + "]"
                             : arrays_[0].name + " + " + std::to_string(offset);
    out.push_back({Line::kDeclare, array_types_[0] + " *" + name, "", {std::move(at)}, {}});
    arrays_.push_back({name, arrays_[0].length - offset, false});
  }

  void DeclareGrid(std::vector<Line>& out) {
    grid_ = "m" + std::to_string(next_++);
    Line line{Line::kDeclare, "int " + grid_ + "[3][4]", "{}", {}, {}};
    const int values = Pick(1, 12);
    for (int i = 0; i < values; ++i) line.parts.push_back(Expression(1));
    out.push_back(std::move(line));
  }

  Piece Number(int low, int high) { return {Piece::kNumber, std::to_string(Pick(low, high)), {}}; }

  static Piece Within(Piece index, int length) {
    return {Piece::kWithin, std::to_string(length), {std::move(index)}};
  }

  Piece Index(bool to_write) {
    if (!grid_.empty() && random_.Chance(0.3)) {
      return {Piece::kIndex, grid_, {Within(Expression(1), 3), Within(Expression(1), 4)}};
    }
    if (!to_write && !constant_.name.empty() && random_.Chance(0.5)) {
      return {Piece::kIndex, constant_.name, {Within(Expression(1), constant_.length)}};
    }
    if (arrays_.empty()) return Leaf();
    const Array& array = arrays_[random_.Below(arrays_.size())];
    Piece index = Expression(1);
    // In bounds most of the time.
    if (!array.may_miss || random_.Chance(0.7)) {
      index = Within(std::move(index), array.length);
    } else if (careful_ || !random_.Chance(0.1)) {
      Piece cast{Piece::kCast, "unsigned", {std::move(index)}};
      index = {Piece::kBinary, "%", {std::move(cast), Number(array.length, array.length)}};
    }
    return {Piece::kIndex, array.name, {std::move(index)}};
  }

  bool HasArrays() const { return !arrays_.empty() || !grid_.empty() || !constant_.name.empty(); }

  Piece Leaf() {
    if (random_.Chance(0.3)) return Number(-9, 20);
    if (!arrays_.empty() && random_.Chance(0.2))
      return {Piece::kIndex, arrays_[0].name, {Number(0, 3)}};
    if (random_.Chance(0.06)) {
      static const std::vector<std::string> kOdd = {
          "0x1fu",     "3L",       "7ul",   "'a'",    "kFew",      "kMany",   "kLess",
          "INT_MAX",   "INT_MIN",  "0x80u", "010",    "1LL",       "true",    "sizeof(int)",
          "SCHAR_MAX", "UINT_MAX", "'\\n'", "0xffff", "INT16_MIN", "sizeof a"};
      return {Piece::kLeaf, One(kOdd), {}};
    }
    return {Piece::kLeaf, One(names_), {}};
  }

  // With a side effect, or through a pointer.
  Piece Effect(int depth) {
    const double kind = random_.Uniform();
    if (kind < 0.3 && !writable_.empty()) {
      static const std::vector<std::string> kSteps = {"++", "--"};
      const std::string step = One(kSteps), name = One(writable_);
      return {Piece::kStep, random_.Chance(0.3) ? "(" + step + name + ")" : name + step, {}};
    }
    if (kind < 0.5 && !writable_.empty()) {
      const std::string update = One({" =", " =", " +=", " ^=", " -="});
      return {Piece::kSet, One(writable_) + update, {Expression(depth - 1)}};
    }
    if (kind < 0.65) return {Piece::kComma, "", {Expression(depth - 1), Expression(depth - 1)}};
    if (kind < 0.85 && !int_array_.empty()) {
      return {Piece::kCall, One({"total", "turn", "sorted"}), {{Piece::kLeaf, int_array_, {}}}};
    }
    if (kind < 0.9 && !grid_.empty()) {
      return {Piece::kCall, "sum4", {{Piece::kLeaf, grid_, {}}, Number(0, 3)}};
    }
    if (!ints_.empty())
      return {Piece::kCall, "bump", {{Piece::kLeaf, "&" + One(ints_), {}}, Leaf()}};
    return Leaf();
  }

  Piece Small(Piece piece) { return {Piece::kBinary, "%", {std::move(piece), Number(2, 97)}}; }

  Piece Arithmetic(int depth) {
    static const std::vector<std::string> kArithmetic = {"+", "-", "*", "+", "-", "&", "|", "^"};
    Piece piece{Piece::kBinary, One(kArithmetic), {Expression(depth - 1), Expression(depth - 1)}};
    return random_.Chance(careful_ ? 0.5 : 0.35) ? Small(std::move(piece)) : piece;
  }

  Piece Shift(int depth) {
    const auto sub = [&] { return Expression(depth - 1); };
    const bool wild = !careful_ && random_.Chance(0.05);
    Piece count = wild ? sub() : Piece{Piece::kBinary, "&", {sub(), Number(0, 7)}};
    const bool raw = !careful_ && random_.Chance(0.2);
    Piece left = raw ? sub() : Piece{Piece::kCast, "unsigned", {sub()}};
    return {Piece::kBinary, random_.Chance(0.5) ? "<<" : ">>", {std::move(left), std::move(count)}};
  }

  Piece Expression(int depth) {
    if (depth == 0 || random_.Chance(0.2)) return Leaf();
    if (random_.Chance(0.03)) return Effect(depth);
    const double kind = random_.Uniform();
    const auto sub = [&] { return Expression(depth - 1); };
    if (kind < 0.45) return Arithmetic(depth);
    if (kind < 0.55) {
      static const std::vector<std::string> kCompare = {
          "<", "<=", ">", ">=", "==", "!=", "&&", "||"};
      return {Piece::kBinary, One(kCompare), {sub(), sub()}};
    }
    if (kind < 0.65) return Shift(depth);
    if (kind < 0.73) {
      Piece right = !careful_ && random_.Chance(0.1) ? sub() : Number(2, 9);
      return {Piece::kBinary, random_.Chance(0.5) ? "/" : "%", {sub(), std::move(right)}};
    }
    if (kind < 0.80) return {Piece::kUnary, One({"-", "~", "!", "+"}), {sub()}};
    if (kind < 0.86) return {Piece::kCast, kTypes[random_.Below(kTypes.size())], {sub()}};
    if (kind < 0.92) return {Piece::kChoose, "", {sub(), sub(), sub()}};
    if (kind < 0.96 && HasArrays()) return Index(false);
    static const std::vector<std::string> kCalls = {
        "help", "twice", "abs", "__builtin_popcount", "look", "gcd", "mix", "clip", "SQUARE"};
    if (random_.Chance(0.1)) return {Piece::kCall, "PICK", {sub(), sub(), sub()}};
    if (random_.Chance(0.1)) return {Piece::kCall, "LOW", {sub(), Number(0, 31)}};
    return {Piece::kCall, One(kCalls), {sub(), sub()}};
  }

  void Assign(std::vector<Line>& out) {
    static const std::vector<std::string> kUpdates = {
        "=", "=", "+=", "-=", "*=", "^=", "|=", "&=", "%=", "/=", "<<=", ">>=", "++", "--"};
    std::string update = One(kUpdates);
    Line line{Line::kAssign, One(writable_), update, {}, {}};
    if ((!arrays_.empty() || !grid_.empty()) && random_.Chance(0.3)) {
      Piece target = Index(true);
      if (target.kind == Piece::kIndex) {
        line.parts.push_back(std::move(target));
        line.word.clear();
      }
    }
    if (update == "%=" || update == "/=" || update == "<<=" || update == ">>=" || update == "*=") {
      line.parts.push_back(Number(1, 6));
    } else {
      line.parts.push_back(Expression(2));
    }
    out.push_back(std::move(line));
  }

  // Declarations of a block are forgotten behind it.
  struct Scope {
    explicit Scope(Author& author)
        : author(author),
          names(author.names_.size()),
          writable(author.writable_.size()),
          ints(author.ints_.size()),
          outer_ints(std::exchange(author.outer_ints_, ints)) {}
    ~Scope() {
      author.outer_ints_ = outer_ints;
      author.names_.resize(names);
      author.writable_.resize(writable);
      author.ints_.resize(ints);
    }
    Author& author;
    size_t names, writable, ints, outer_ints;
  };

  void Loop(std::vector<Line>& out, int depth) {
    const std::string name = "i" + std::to_string(next_++);
    const double kind = random_.Uniform();
    Line line{kind < 0.5   ? Line::kFor
              : kind < 0.6 ? Line::kDown
              : kind < 0.8 ? Line::kWhile
                           : Line::kDo,
              name,
              random_.Chance(0.2) ? std::to_string(Pick(2, 4)) : "",
              {},
              {}};
    line.parts.push_back(random_.Chance(0.5)
                             ? Number(1, 12)
                             : Piece{Piece::kBinary, "%", {Expression(1), Number(3, 15)}});
    const Scope scope(*this);
    names_.push_back(name);
    ++loops_;
    line.bodies.emplace_back();
    Lines(line.bodies[0], Pick(1, 3), depth - 1);
    --loops_;
    out.push_back(std::move(line));
  }

  void Branch(std::vector<Line>& out, int depth) {
    const bool is_switch = random_.Chance(0.3);
    Line line{is_switch ? Line::kSwitch : Line::kIf, "", "", {Expression(2)}, {}};
    if (is_switch) line.parts[0] = Small(std::move(line.parts[0]));
    const int bodies = is_switch ? Pick(2, 4) : Pick(1, 2);
    if (is_switch) {
      line.word = std::to_string(Pick(-2, 1));
      line.update = std::to_string(random_.Chance(0.7) ? bodies - 1 : Pick(0, bodies));
    }
    for (int i = 0; i < bodies; ++i) {
      const Scope scope(*this);
      line.bodies.emplace_back();
      Lines(line.bodies.back(), Pick(1, 2), depth - 1);
      if (is_switch && random_.Chance(0.7))
        line.bodies.back().push_back({Line::kBreak, "", "", {}, {}});
    }
    out.push_back(std::move(line));
  }

  void Lines(std::vector<Line>& out, int count, int depth) {
    for (int i = 0; i < count; ++i) {
      const double kind = random_.Uniform();
      if (depth > 0 && kind < 0.25) {
        Loop(out, depth);
      } else if (depth > 0 && kind < 0.5) {
        Branch(out, depth);
      } else if (kind < 0.6) {
        Declare(out, false);
      } else if (loops_ > 0 && kind < 0.64) {
        Line line{Line::kIf, "", "", {Expression(1)}, {{}}};
        line.bodies[0].push_back(
            {random_.Chance(0.5) ? Line::kBreak : Line::kContinue, "", "", {}, {}});
        out.push_back(std::move(line));
      } else if (kind < 0.66) {
        Line line{Line::kIf, "", "", {Expression(1)}, {{}}};
        line.bodies[0].push_back({Line::kReturn, "", "", {Expression(2)}, {}});
        out.push_back(std::move(line));
      } else if (kind < 0.68 && ints_.size() > 1) {
        const std::string both = "&" + ints_[0] + ", &" + ints_[1];
        out.push_back(
            {Line::kCallOnly, "", "", {{Piece::kCall, "order", {{Piece::kLeaf, both, {}}}}}, {}});
      } else {
        Assign(out);
      }
    }
  }

  Random random_;
  std::vector<std::string> names_ = {"a", "b"};
  std::vector<std::string> writable_;
  std::vector<std::string> ints_;  // those of type int
  size_t outer_ints_ = 0;          // the first of them that a block may hide
  std::string int_array_;          // "name, length" of an array of int
  std::vector<Array> arrays_;
  std::vector<std::string> array_types_;
  Array constant_;    // may be read only
  std::string grid_;  // an array of 3 x 4 ints
  int next_ = 0;
  int loops_ = 0;
  bool careful_ = false;  // rarely undefined
};

}  // namespace

std::vector<RandomLine> DrawRandomBody(Random random, bool loops_and_arrays) {
  Author author(random);
  return loops_and_arrays ? author.LoopsAndArrays() : author.Function();
}

}  // namespace tidemill
