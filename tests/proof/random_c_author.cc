#include <array>

#include "tests/proof/random_c_tree.h"

namespace tidemill {
namespace {

using Piece = RandomPiece;
using Line = RandomLine;

constexpr std::array<const char*, 11> kTypes = {
    "int",   "int",         "int",           "unsigned", "long",    "unsigned long",
    "short", "signed char", "unsigned char", "bool",     "uint16_t"};

class Author {
 public:
  explicit Author(Random random) : random_(random) {}

  std::vector<Line> Function() {
    names_ = {"a", "b"};
    writable_ = {};
    std::vector<Line> body;
    const int variables = Pick(1, 4);
    for (int i = 0; i < variables; ++i) Declare(body, true);
    if (random_.Chance(0.6)) DeclareArray(body);
    Lines(body, Pick(1, 5), 2);
    body.push_back({Line::kReturn, "", "", {Expression(2)}, {}});
    return body;
  }

 private:
  int Pick(int low, int high) { return static_cast<int>(random_.Between(low, high)); }
  std::string One(const std::vector<std::string>& of) { return of[random_.Below(of.size())]; }

  void Declare(std::vector<Line>& out, bool outermost) {
    const std::string name = "v" + std::to_string(next_++);
    const std::string type = kTypes[random_.Below(kTypes.size())];
    const bool initialised = outermost || random_.Chance(0.9);
    out.push_back({Line::kDeclare, type + " " + name, "", {}, {}});
    if (initialised) out.back().parts.push_back(Expression(2));
    names_.push_back(name);
    writable_.push_back(name);
    if (type == "int") ints_.push_back(name);
  }

  void DeclareArray(std::vector<Line>& out) {
    const std::string name = "t" + std::to_string(next_++);
    const int length = 1 << Pick(2, 4);
    const std::string type = kTypes[random_.Below(kTypes.size())];
    Line line{Line::kDeclare, type + " " + name + "[" + std::to_string(length) + "]", "{}", {}, {}};
    if (type == "int") int_array_ = name + ", " + std::to_string(length);
    const int values = Pick(1, length);
    for (int i = 0; i < values; ++i) line.parts.push_back(Expression(1));
    out.push_back(std::move(line));
    arrays_.emplace_back(name, length);
  }

  Piece Number(int low, int high) { return {Piece::kNumber, std::to_string(Pick(low, high)), {}}; }

  Piece Index() {
    const auto& [name, length] = arrays_[random_.Below(arrays_.size())];
    Piece index = Expression(1);
    // In bounds most of the time.
    if (!random_.Chance(0.03)) {
      Piece cast{Piece::kCast, "unsigned", {std::move(index)}};
      index = {Piece::kBinary, "%", {std::move(cast), {Piece::kLeaf, std::to_string(length), {}}}};
    }
    return {Piece::kIndex, name, {std::move(index)}};
  }

  Piece Leaf() {
    if (random_.Chance(0.3)) return Number(-9, 20);
    if (!arrays_.empty() && random_.Chance(0.2))
      return {Piece::kIndex, arrays_[0].first, {Number(0, 3)}};
    return {Piece::kLeaf, One(names_), {}};
  }

  // With a side effect, or through a pointer.
  Piece Effect(int depth) {
    const double kind = random_.Uniform();
    if (kind < 0.3 && !writable_.empty()) {
      return {Piece::kStep, One(writable_) + (random_.Chance(0.5) ? "++" : "--"), {}};
    }
    if (kind < 0.5 && !writable_.empty())
      return {Piece::kSet, One(writable_), {Expression(depth - 1)}};
    if (kind < 0.7) return {Piece::kComma, "", {Expression(depth - 1), Expression(depth - 1)}};
    if (kind < 0.85 && !int_array_.empty()) {
      return {
          Piece::kCall, random_.Chance(0.5) ? "total" : "turn", {{Piece::kLeaf, int_array_, {}}}};
    }
    if (!ints_.empty())
      return {Piece::kCall, "bump", {{Piece::kLeaf, "&" + One(ints_), {}}, Leaf()}};
    return Leaf();
  }

  Piece Small(Piece piece) { return {Piece::kBinary, "%", {std::move(piece), Number(2, 97)}}; }

  Piece Expression(int depth) {
    if (depth == 0 || random_.Chance(0.2)) return Leaf();
    if (random_.Chance(0.03)) return Effect(depth);
    const double kind = random_.Uniform();
    const auto sub = [&] { return Expression(depth - 1); };
    if (kind < 0.45) {
      static const std::vector<std::string> kArithmetic = {"+", "-", "*", "+", "-", "&", "|", "^"};
      Piece piece{Piece::kBinary, One(kArithmetic), {sub(), sub()}};
      return random_.Chance(0.25) ? Small(std::move(piece)) : piece;
    }
    if (kind < 0.55) {
      static const std::vector<std::string> kCompare = {
          "<", "<=", ">", ">=", "==", "!=", "&&", "||"};
      return {Piece::kBinary, One(kCompare), {sub(), sub()}};
    }
    if (kind < 0.65) {
      Piece count =
          random_.Chance(0.05) ? sub() : Piece{Piece::kBinary, "&", {sub(), Number(0, 7)}};
      Piece left = random_.Chance(0.3) ? sub() : Piece{Piece::kCast, "unsigned", {sub()}};
      return {
          Piece::kBinary, random_.Chance(0.5) ? "<<" : ">>", {std::move(left), std::move(count)}};
    }
    if (kind < 0.73) {
      Piece right = random_.Chance(0.1) ? sub() : Number(1, 9);
      return {Piece::kBinary, random_.Chance(0.5) ? "/" : "%", {sub(), std::move(right)}};
    }
    if (kind < 0.80) return {Piece::kUnary, One(std::vector<std::string>{"-", "~", "!"}), {sub()}};
    if (kind < 0.86) return {Piece::kCast, kTypes[random_.Below(kTypes.size())], {sub()}};
    if (kind < 0.92) return {Piece::kChoose, "", {sub(), sub(), sub()}};
    if (kind < 0.96 && !arrays_.empty()) return Index();
    return {Piece::kCall, One({"help", "twice", "abs", "__builtin_popcount"}), {sub(), sub()}};
  }

  void Assign(std::vector<Line>& out) {
    static const std::vector<std::string> kUpdates = {
        "=", "=", "+=", "-=", "*=", "^=", "|=", "&=", "%=", "<<=", ">>=", "++", "--"};
    std::string update = One(kUpdates);
    Line line{Line::kAssign, One(writable_), update, {}, {}};
    if (!arrays_.empty() && random_.Chance(0.3)) {
      line.parts.push_back(Index());
      line.word.clear();
    }
    if (update == "%=" || update == "<<=" || update == ">>=" || update == "*=") {
      line.parts.push_back(Number(1, 6));
    } else {
      line.parts.push_back(Expression(2));
    }
    out.push_back(std::move(line));
  }

  void Loop(std::vector<Line>& out, int depth) {
    const std::string name = "i" + std::to_string(next_++);
    Line line{random_.Chance(0.6)   ? Line::kFor
              : random_.Chance(0.5) ? Line::kWhile
                                    : Line::kDo,
              name,
              "",
              {},
              {}};
    line.parts.push_back(random_.Chance(0.5)
                             ? Number(1, 12)
                             : Piece{Piece::kBinary, "%", {Expression(1), Number(3, 15)}});
    const size_t names = names_.size(), writable = writable_.size(), ints = ints_.size();
    names_.push_back(name);
    ++loops_;
    line.bodies.emplace_back();
    Lines(line.bodies[0], Pick(1, 3), depth - 1);
    --loops_;
    names_.resize(names);
    writable_.resize(writable);
    ints_.resize(ints);
    out.push_back(std::move(line));
  }

  void Branch(std::vector<Line>& out, int depth) {
    const bool is_switch = random_.Chance(0.3);
    Line line{is_switch ? Line::kSwitch : Line::kIf, "", "", {Expression(2)}, {}};
    if (is_switch) line.parts[0] = Small(std::move(line.parts[0]));
    const int bodies = is_switch ? Pick(2, 4) : Pick(1, 2);
    for (int i = 0; i < bodies; ++i) {
      const size_t names = names_.size(), writable = writable_.size(), ints = ints_.size();
      line.bodies.emplace_back();
      Lines(line.bodies.back(), Pick(1, 2), depth - 1);
      if (is_switch && random_.Chance(0.7))
        line.bodies.back().push_back({Line::kBreak, "", "", {}, {}});
      names_.resize(names);
      writable_.resize(writable);
      ints_.resize(ints);
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
      } else {
        Assign(out);
      }
    }
  }

  Random random_;
  std::vector<std::string> names_;
  std::vector<std::string> writable_;
  std::vector<std::string> ints_;  // those of type int
  std::string int_array_;          // "name, length" of an array of int
  std::vector<std::pair<std::string, int>> arrays_;
  int next_ = 0;
  int loops_ = 0;
};

}  // namespace

std::vector<RandomLine> DrawRandomBody(Random random) {
  return Author(random).Function();
}

}  // namespace tidemill
