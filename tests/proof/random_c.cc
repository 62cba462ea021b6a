#include "tests/proof/random_c.h"

#include <algorithm>
#include <vector>

#include "tests/proof/random_c_tree.h"

namespace tidemill {
namespace {

using Piece = RandomPiece;
using Line = RandomLine;

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
  std::vector<Line> body = DrawRandomBody(random.Split("author"));
  RandomC drawn;
  drawn.reference = Writer(random.Split("plain"), true).Text(body);
  Random slip = random.Split("changes");
  for (int i = 0; i < changed; ++i) Change(body, slip);
  drawn.candidate = Writer(random.Split("other words"), false).Text(body);
  return drawn;
}

}  // namespace tidemill
