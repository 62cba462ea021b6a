#include "prover/test_kit/random_c.h"

#include <algorithm>
#include <vector>

#include "prover/test_kit/random_c_tree.h"

namespace tidemill {
namespace {

using Piece = RandomPiece;
using Line = RandomLine;

constexpr char kHelpers[] = R"(typedef unsigned char byte;
typedef int row[4];
enum { kNone, kFew = 3, kMany = kFew * 2 + 1, kLess = -2 };
#define PICK(c, x, y) ((c) ? (x) : (y))
#define SQUARE(x) ((x) * (x))
#define LOW(x, n) ((x) & ((1u << (n)) - 1))
static const short kTable[8] = {3, -1, 4, 1, -5, 9, 2, -6};
static const unsigned char kGrid[2][3] = {{1, 200, 3}, {40, 5, 255}};
static int help(int x, int y) {
  int s = 0;
  for (int k = 0; k < 4; k++) s = s * 2 + ((x >> k & 1) ^ (y & k));
  return s;
}
static long twice(long x, unsigned char y) { return y ? x % 1000 + y : x % 7; }
static int total(const int *p, int n) { int s = 0; while (n--) s ^= *p++; return s; }
static int turn(int p[], int n) {
  for (int i = 0, j = n - 1; i < j; i++, j--) { int t = p[i]; p[i] = p[j]; p[j] = t; }
  return (n - 1)[p];
}
static int bump(int *p, int by) { return *p = (*p + by) % 1000; }
static int look(int i, int j) { return kTable[(unsigned)i % 8] + kGrid[(j & 1)][(unsigned)i % 3]; }
static int gcd(int x, int y) { return y ? gcd(y, x % y) : x; }
static inline unsigned mix(unsigned x, byte y) { x ^= x << 13; x ^= x >> 17; return (x ^= x << 5) + y; }
static int sorted(int *p, int n) {
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && p[j - 1] > p[j]; --j) { int t = p[j]; p[j] = p[j - 1]; p[j - 1] = t; }
  return p[n / 2];
}
static void order(int *x, int *y) { if (*x > *y) { int t = *x; *x = *y; *y = t; } }
static int64_t clip(int64_t x, int8_t y) { return x < -y ? -y : x > 100 ? (int8_t)x : x; }
static int sum4(row m[], int n) {
  int s = 0;
  for (int i = 0; i < n; i++) for (int j = 0; j < 4; j++) s += m[i][j] % 100 * (i ^ j);
  return s;
}
)";

// Writes a tree down: plainly, or in other words where `style` says so.
class Writer {
 public:
  Writer(Random random, bool plain) : random_(random), plain_(plain) {}

  std::string Text(const std::vector<Line>& body) {
    std::string out = "int f(int a, int b) {\n";
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
        if (piece.word == "!" && Other()) return "((" + part(0) + ") == 0)";
        if (piece.word == "~" && Other()) return "(-1 - (" + part(0) + "))";
        return piece.word + "(" + part(0) + ")";
      case Piece::kCast:
        return "(" + piece.word + ")(" + part(0) + ")";
      case Piece::kIndex:
        if (piece.parts.size() == 2) return piece.word + "[" + part(0) + "][" + part(1) + "]";
        // The sanitizer does not see where a pointer goes.
        return piece.parts[0].kind == Piece::kWithin && Other()
                   ? "*(" + piece.word + " + (" + part(0) + "))"
                   : piece.word + "[" + part(0) + "]";
      case Piece::kWithin:
        return "((unsigned)(" + part(0) + ") % " + piece.word + ")";
      case Piece::kChoose:
        if (Other()) return "(!(" + part(0) + ") ? " + part(2) + " : " + part(1) + ")";
        return "(" + part(0) + " ? " + part(1) + " : " + part(2) + ")";
      case Piece::kStep:
        return piece.word;
      case Piece::kSet:
        return "(" + piece.word + " " + part(0) + ")";
      case Piece::kComma:
        return "(" + part(0) + ", " + part(1) + ")";
      case Piece::kCall:
        return TextOfCall(piece);
      case Piece::kBinary:
        break;
    }
    static const std::vector<std::pair<std::string, std::string>> kTurned = {
        {"+", "+"},   {"*", "*"}, {"&", "&"}, {"|", "|"},   {"^", "^"},  {"==", "=="},
        {"!=", "!="}, {"<", ">"}, {">", "<"}, {"<=", ">="}, {">=", "<="}};
    for (const auto& [word, turned] : kTurned) {
      if (piece.word == word && Other()) return "(" + part(1) + " " + turned + " " + part(0) + ")";
    }
    if (piece.word == "&&" && Other()) return "(" + part(0) + " ? !!(" + part(1) + ") : 0)";
    if (piece.word == "||" && Other()) return "!(!(" + part(0) + ") && !(" + part(1) + "))";
    return "(" + part(0) + " " + piece.word + " " + part(1) + ")";
  }

  std::string TextOfCall(const Piece& piece) {
    const bool one = piece.parts.size() == 1 || piece.word == "abs" || piece.word == "SQUARE" ||
                     piece.word[0] == '_';
    std::string text = piece.word + "(" + Text(piece.parts[0]);
    for (size_t i = 1; i < piece.parts.size() && !one; ++i) text += ", " + Text(piece.parts[i]);
    return text + ")";
  }

  void WriteLoop(const Line& line, const std::string& indent, std::string& out) {
    const std::string bound = Text(line.parts[0]);
    const std::string& i = line.word;
    const std::string in = indent + "  ";
    const bool down = line.kind == Line::kDown;
    if (line.kind == Line::kFor || down) {
      const std::string step = line.update.empty() ? "1" : line.update;
      const std::string sign = down ? "-" : "+";
      out += indent + "for (int " + i + " = " + (down ? bound + " - 1" : "0") + "; " + i +
             (down ? " >= 0" : " < " + bound) + "; " +
             (step != "1" || Other() ? i + " " + sign + "= " + step
              : Other()              ? sign + sign + i
                                     : i + sign + sign) +
             ") {\n";
      Write(line.bodies[0], in, out);
      out += indent + "}\n";
    } else if (line.kind == Line::kWhile && Other()) {
      out += indent + "for (int " + i + " = " + bound + "; " + i + "-- > 0;) {\n";
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

  // `update` says which of the bodies is the default, and `word` from where the cases count.
  void WriteSwitch(const Line& line, const std::string& indent, std::string& out) {
    const size_t other = std::stoul(line.update);
    int value = std::stoi(line.word);
    out += indent + "switch (" + Text(line.parts[0]) + ") {\n";
    for (size_t i = 0; i < line.bodies.size(); ++i, ++value) {
      if (i == other && value % 2 == 0) out += indent + "  case " + std::to_string(value) + ":\n";
      out += indent + (i == other ? "  default: {\n" : "  case " + std::to_string(value) + ": {\n");
      Write(line.bodies[i], indent + "    ", out);
      out += indent + "  }\n";
    }
    out += indent + "}\n";
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
      case Line::kDown:
      case Line::kWhile:
      case Line::kDo:
        return WriteLoop(line, indent, out);
      case Line::kSwitch:
        return WriteSwitch(line, indent, out);
      case Line::kCallOnly:
        out += indent + Text(line.parts[0]) + ";\n";
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

const std::string& RandomCHelpers() {
  static const std::string helpers = kHelpers;
  return helpers;
}

RandomC DrawRandomC(Random random, const RandomCOptions& options) {
  std::vector<Line> body = DrawRandomBody(random.Split("author"), options.loops_and_arrays);
  RandomC drawn;
  drawn.reference = Writer(random.Split("plain"), true).Text(body);
  Random slip = random.Split("changes");
  for (int i = 0; i < options.changed; ++i) Change(body, slip);
  drawn.candidate = Writer(random.Split("other words"), false).Text(body);
  return drawn;
}

}  // namespace tidemill
