#include "tests/proof/random_c.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace tidemill {
namespace {

// A tree that knows how to be written in several ways. `word` is an operator or a leaf's text;
// `slips`: what the operator may be by mistake.
struct Piece {
  enum Kind {
    kLeaf,
    kNumber,
    kBinary,
    kUnary,
    kCast,
    kChoose,
    kIndex,
    kCall,
    kStep,
    kSet,
    kComma  //
  } kind = kLeaf;
  std::string word;
  std::vector<Piece> parts;
};

struct Line {
  enum Kind { kDeclare, kAssign, kIf, kFor, kWhile, kDo, kSwitch, kBreak, kContinue, kReturn } kind;
  std::string word;    // a variable, or a type and a name
  std::string update;  // "=", "+=", ..
  std::vector<Piece> parts;
  std::vector<std::vector<Line>> bodies;
};

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

// Writes a tree down: plainly, or in other words where `style` says so.
class Writer {
 public:
  Writer(Random random, bool plain) : random_(random), plain_(plain) {}

  std::string Text(const std::vector<Line>& body) {
    std::string out =
        "static int help(int x, int y) {\n"
        "  int s = 0;\n"
        "  for (int k = 0; k < 4; k++) s = s * 2 + ((x >> k & 1) ^ (y & k));\n"
        "  return s;\n}\n"
        "static long twice(long x, unsigned char y) { return y ? x % 1000 + y : x % 7; }\n"
        "static int total(const int *p, int n) { int s = 0; while (n--) s ^= *p++; return s; }\n"
        "static int turn(int p[], int n) {\n"
        "  for (int i = 0, j = n - 1; i < j; i++, j--) { int t = p[i]; p[i] = p[j]; p[j] = t; }\n"
        "  return (n - 1)[p];\n}\n"
        "static int bump(int *p, int by) { return *p = (*p + by) % 1000; }\n"
        "int f(int a, int b) {\n";
    Write(body, "  ", out);
    return out + "}\n";
  }

 private:
  bool Other() { return !plain_ && random_.Chance(0.3); }

  std::string Text(const Piece& piece) {
    const auto part = [&](size_t i) { return Text(piece.parts[i]); };
    switch (piece.kind) {
      case Piece::kLeaf:
        return piece.word;
      case Piece::kNumber:
        return piece.word[0] == '-' ? "(" + piece.word + ")" : piece.word;
      case Piece::kUnary:
        return piece.word + "(" + part(0) + ")";
      case Piece::kCast:
        return "(" + piece.word + ")(" + part(0) + ")";
      case Piece::kIndex:
        // The sanitizer does not see where a pointer goes.
        return piece.parts[0].word == "%" && Other() ? "*(" + piece.word + " + (" + part(0) + "))"
                                                     : piece.word + "[" + part(0) + "]";
      case Piece::kChoose:
        if (Other()) return "(!(" + part(0) + ") ? " + part(2) + " : " + part(1) + ")";
        return "(" + part(0) + " ? " + part(1) + " : " + part(2) + ")";
      case Piece::kStep:
        return piece.word;
      case Piece::kSet:
        return "(" + piece.word + " = " + part(0) + ")";
      case Piece::kComma:
        return "(" + part(0) + ", " + part(1) + ")";
      case Piece::kCall:
        if (piece.parts.size() == 1) return piece.word + "(" + part(0) + ")";
        if (piece.word == "abs" || piece.word[0] == '_') return piece.word + "(" + part(0) + ")";
        return piece.word + "(" + part(0) + ", " + part(1) + ")";
      case Piece::kBinary:
        break;
    }
    static const std::vector<std::pair<std::string, std::string>> kTurned = {
        {"+", "+"},   {"*", "*"}, {"&", "&"}, {"|", "|"},   {"^", "^"},  {"==", "=="},
        {"!=", "!="}, {"<", ">"}, {">", "<"}, {"<=", ">="}, {">=", "<="}};
    for (const auto& [word, turned] : kTurned) {
      if (piece.word == word && Other()) return "(" + part(1) + " " + turned + " " + part(0) + ")";
    }
    return "(" + part(0) + " " + piece.word + " " + part(1) + ")";
  }

  void WriteLoop(const Line& line, const std::string& indent, std::string& out) {
    const std::string bound = Text(line.parts[0]);
    const std::string& i = line.word;
    const std::string in = indent + "  ";
    if (line.kind == Line::kFor) {
      out += indent + "for (int " + i + " = 0; " + i + " < " + bound + "; " +
             (Other()   ? i + " += 1"
              : Other() ? "++" + i
                        : i + "++") +
             ") {\n";
      Write(line.bodies[0], in, out);
      out += indent + "}\n";
    } else if (line.kind == Line::kWhile) {
      out += indent + "int " + i + " = " + bound + ";\n" + indent + "while (" + i + "-- > 0) {\n";
      Write(line.bodies[0], in, out);
      out += indent + "}\n";
    } else {
      out += indent + "int " + i + " = " + bound + ";\n" + indent + "do {\n";
      Write(line.bodies[0], in, out);
      out += indent + "} while (--" + i + " > 0);\n";
    }
  }

  void WriteIf(const Line& line, const std::string& indent, std::string& out) {
    const std::string in = indent + "  ";
    const bool swapped = line.bodies.size() == 2 && Other();
    out += indent + "if (" + (swapped ? "!(" : "") + Text(line.parts[0]) + (swapped ? ")" : "") +
           ") {\n";
    Write(line.bodies[swapped ? 1 : 0], in, out);
    if (line.bodies.size() == 2) {
      out += indent + "} else {\n";
      Write(line.bodies[swapped ? 0 : 1], in, out);
    }
    out += indent + "}\n";
  }

  void WriteAssign(const Line& line, const std::string& indent, std::string& out) {
    const std::string target = line.word.empty() ? Text(line.parts[0]) : line.word;
    if (line.update == "++" || line.update == "--") {
      out += indent + (Other() ? "(" + target + ")" + line.update : line.update + target) + ";\n";
      return;
    }
    const std::string value = Text(line.parts.back());
    const std::string op = line.update.substr(0, line.update.size() - 1);
    if (!op.empty() && !line.word.empty() && Other()) {
      out += indent + target + " = " + target + " " + op + " (" + value + ");\n";
    } else {
      out += indent + target + " " + line.update + " " + value + ";\n";
    }
  }

  void Write(const Line& line, const std::string& indent, std::string& out) {
    switch (line.kind) {
      case Line::kDeclare:
        out += indent + line.word;
        if (line.update == "{}") {
          out += " = {";
          for (size_t i = 0; i < line.parts.size(); ++i)
            out += (i ? ", " : "") + Text(line.parts[i]);
          out += "}";
        } else if (!line.parts.empty()) {
          out += " = " + Text(line.parts[0]);
        }
        out += ";\n";
        break;
      case Line::kAssign:
        return WriteAssign(line, indent, out);
      case Line::kIf:
        return WriteIf(line, indent, out);
      case Line::kFor:
      case Line::kWhile:
      case Line::kDo:
        return WriteLoop(line, indent, out);
      case Line::kSwitch:
        out += indent + "switch (" + Text(line.parts[0]) + ") {\n";
        for (size_t i = 0; i < line.bodies.size(); ++i) {
          const bool last = i + 1 == line.bodies.size();
          out += indent + (last ? "  default: {\n" : "  case " + std::to_string(i) + ": {\n");
          Write(line.bodies[i], indent + "    ", out);
          out += indent + "  }\n";
        }
        out += indent + "}\n";
        break;
      case Line::kBreak:
        out += indent + "break;\n";
        break;
      case Line::kContinue:
        out += indent + "continue;\n";
        break;
      case Line::kReturn:
        out += indent + "return " + Text(line.parts[0]) + ";\n";
        break;
    }
  }

  void Write(const std::vector<Line>& lines, const std::string& indent, std::string& out) {
    for (const Line& line : lines) Write(line, indent, out);
  }

  Random random_;
  const bool plain_;
};

void Pieces(Piece& piece, std::vector<Piece*>& out) {
  out.push_back(&piece);
  for (Piece& part : piece.parts) Pieces(part, out);
}

void Pieces(std::vector<Line>& lines, std::vector<Piece*>& out) {
  for (Line& line : lines) {
    for (Piece& part : line.parts) Pieces(part, out);
    for (std::vector<Line>& body : line.bodies) Pieces(body, out);
  }
}

void Change(std::vector<Line>& body, Random& random) {
  std::vector<Piece*> pieces;
  Pieces(body, pieces);
  static const std::vector<std::vector<std::string>> kSlips = {
      {"+", "-", "^"}, {"*", "+"},   {"&", "|", "^"}, {"<", "<=", ">"}, {">", ">="},
      {"==", "!="},    {"<<", ">>"}, {"/", "%"},      {"&&", "||"}};
  for (int attempt = 0; attempt < 50; ++attempt) {
    Piece& piece = *pieces[random.Below(pieces.size())];
    if (piece.kind == Piece::kNumber) {
      piece.word = std::to_string(std::stoi(piece.word) + (random.Chance(0.5) ? 1 : -1));
      return;
    }
    if (piece.kind == Piece::kLeaf && (piece.word == "a" || piece.word == "b")) {
      piece.word = piece.word == "a" ? "b" : "a";
      return;
    }
    if (piece.kind != Piece::kBinary) continue;
    for (const std::vector<std::string>& slips : kSlips) {
      if (std::find(slips.begin(), slips.end(), piece.word) == slips.end()) continue;
      const std::string before = piece.word;
      while (piece.word == before) piece.word = slips[random.Below(slips.size())];
      return;
    }
  }
}

}  // namespace

RandomC DrawRandomC(Random random, int changed) {
  std::vector<Line> body = Author(random.Split("author")).Function();
  RandomC drawn;
  drawn.reference = Writer(random.Split("plain"), true).Text(body);
  Random slip = random.Split("changes");
  for (int i = 0; i < changed; ++i) Change(body, slip);
  drawn.candidate = Writer(random.Split("other words"), false).Text(body);
  return drawn;
}

}  // namespace tidemill
