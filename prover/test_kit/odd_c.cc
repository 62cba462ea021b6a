#include "prover/test_kit/odd_c.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "prover/c_ast.h"
#include "prover/prover.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

constexpr int kOddRange = 9;

// Its program prints every value, so that a crash leaves fewer of them.
constexpr char kOddMain[] =
    "#include <stdio.h>\nint f(int, int);\nint main(void) {\n"
    "  for (int a = -9; a <= 9; a++) for (int b = -9; b <= 9; b++) printf(\"%d \", f(a, b));\n"
    "  return 0;\n}\n";

constexpr std::array kBefore = {"#include <stdio.h>\n",
                                "#include <stdint.h>\n",
                                "#include <limits.h>\n",
                                "#include <stdlib.h>\n",
                                "#include <math.h>\n",
                                "#include \"own.h\"\n",
                                "#include <own.h>\n",
                                "#define TWO 2\n",
                                "#define INT_MAX 3\n",
                                "#undef INT_MAX\n",
                                "#define two(x) \\\n  (x)\n",
                                "#pragma once\n",
                                "#pragma GCC optimize(\"O2\")\n",
                                "#pragma weak f\n",
                                "#pragma weak f = g0\n",
                                "#ifdef linux\n#define int short\n#endif\n",
                                "#ifdef __GNUC__\n#define a b\n#endif\n",
                                "#ifdef _LP64\n#define b a\n#endif\n",
                                "#if 0\nyou don't\n#endif\n",
                                "#if 0\n#else\n#else\n#endif\n",
                                "_Static_assert(1, \"x\");\n",
                                "_Static_assert(0, \"x\");\n",
                                "_Static_assert(sizeof(long) == 8);\n",
                                "_Static_assert(sizeof(int) == 2, \"\");\n",
                                "typedef short int32_t;\n",
                                "typedef short T;\n",
                                "double int32_t;\n",
                                "enum { kA, kB = 3 };\n",
                                "enum { INT_MAX = 3 };\n",
                                "struct s { int x; };\n",
                                "struct s { int x }\n;\n",
                                "int abs(int x) { return 3; }\n",
                                "static int g1(int x) { return x; }\n",
                                "inline int g2(int x) { return x; }\n",
                                "static inline int g3(int x) { return x; }\n",
                                "static int g4(void) { return nowhere; }\n",
                                "static int g5(int x) { int x = 2; return x; }\n",
                                "int g6(int); static int g6(int x) { return x; }\n",
                                "extern int e;\n",
                                "register int r;\n",
                                "static static int t;\n",
                                "int div(int x, int y) { return x / (y | 1); }\n",
                                "int f(int, int);\n",
                                "static int f(int, int);\n",
                                "inline int f(int, int);\n",
                                "extern int f(int, int);\n",
                                "int f(int x, int y) __attribute__((noinline));\n",
                                "long f(int, int);\n",
                                "int f(int x, int y) __attribute__((ms_abi));\n",
                                "int f(int, int) __attribute__((weak));\n",
                                "__attribute__((constructor)) static void g7(void) {}\n",
                                "__asm__(\"\");\n",
                                "asm(\"\");\n",
                                "static int g8(int *volatile p) { return *p; }\n",
                                "int g9(int n, int t[*]);\n",
                                "__attribute__((unused)) static int h1;\n",
                                "static int h2 __attribute__((unused));\n",
                                "typedef int Q __attribute__((mode(QI)));\n",
                                "typedef int V __attribute__((vector_size(8)));\n",
                                "__attribute__((no_such_thing)) int h3;\n",
                                "int h4 __attribute__((section(\"x\")));\n",
                                "__attribute__((hot, cold)) int h5(int x) { return x; }\n",
                                "const int h6 = 3;\n",
                                "__extension__ typedef int E;\n",
                                "int h7[] = {1, 2, [0] = 3};\n",
                                "?"
                                "?=define X\n",
                                ";\n"};
constexpr std::array kSpecifiers = {"static ",
                                    "inline ",
                                    "extern ",
                                    "static inline ",
                                    "_Noreturn ",
                                    "register ",
                                    "const ",
                                    "__extension__ ",
                                    "__attribute__((noinline)) ",
                                    "__attribute__((hot)) ",
                                    "[[gnu::noinline]] ",
                                    "__attribute__((naked)) ",
                                    "__attribute__((__unused__)) ",
                                    "__attribute__((const)) ",
                                    "__attribute__((pure)) ",
                                    "__attribute__((noreturn)) ",
                                    "__attribute__((ms_abi)) ",
                                    "__attribute__((mode(QI))) ",
                                    "__attribute__(()) ",
                                    "__attribute__((used, unused)) ",
                                    "__attribute__((weak)) ",
                                    "__attribute__((visibility(\"hidden\"))) ",
                                    "__attribute((unused)) ",
                                    "__attribute__((alias(\"g\"))) ",
                                    "auto ",
                                    "volatile ",
                                    "unsigned ",
                                    "typedef "};
constexpr std::array kParameters = {"register int a",
                                    "const int a",
                                    "static int a",
                                    "int a __attribute__((unused))",
                                    "volatile int a",
                                    "__attribute__((unused)) int a",
                                    "[[maybe_unused]] int a",
                                    "int a __attribute__((mode(QI)))",
                                    "signed a",
                                    "short a",
                                    "int (a)",
                                    "inline int a"};
constexpr std::array kBody = {"int a;",
                              "int a = 3;",
                              "int c = 3; (void)c;",
                              "_Static_assert(1, \"\");",
                              "_Static_assert(0, \"\");",
                              "register int q = a; (void)q;",
                              "register int q = a; (void)&q;",
                              "for (static int i = 0; i;) {}",
                              "for (int i = 0; i < 2; i++) {}",
                              "__attribute__((unused)) int u;",
                              "[[maybe_unused]] int w;",
                              "int v __attribute__((mode(HI))) = a; a = v;",
                              "int int32_t = 2; (void)int32_t;",
                              "a = _Generic(a, int: a, default: 0);",
                              "goto z; z: ;",
                              "__asm__(\"\");",
                              ";",
                              "{}",
                              "typedef int I; I k = 0; (void)k;",
                              "int x$ = 0; (void)x$;",
                              "int \xc3\xa9 = 0; (void)\xc3\xa9;",
                              "inline int k = 3;",
                              "extern int e2;",
                              "static int s = 2; (void)s;",
                              "a = a + '\\777' - '\\777';",
                              "static const int t[2] = {1, 2}; (void)t[0];",
                              "switch (a) { __attribute__((fallthrough)); default: ; }",
                              "int unix = 2; (void)unix;",
                              "a = (int __attribute__((unused)))a;",
                              "(void)(static int)a;",
                              "int t[2] = {1, 2, 3}; (void)t;",
                              "a += 0x; ",
                              "a += 1i * 0;",
                              "(void)\"x\\\ny\";",
                              "{ int a = 2; (void)a; }",
                              "if (0) { int b; }",
                              "void *p = &&l; (void)p; l: ;",
                              "const int k = 2; k = 3;",
                              "int k = a; k = k;",
                              "_Alignas(8) int k = 2; (void)k;",
                              "return;",
                              "(void)_Alignof(int);",
                              "a = a ?: 0;",
                              "__typeof__(a) k = a; (void)k;",
                              "a <:0:>;",
                              "(void)__LINE__;",
                              "extern int f(int, int);"};
constexpr std::array kBlanks = {
    "\\\n",    " \\\n",      "\\ \n",       " \\ \n ",       "/* c */",
    " // c\n", " // c \\\n", " // c \\ \n", "/* *\\\n/ */ ", "\t",
    "\r\n",    "\r",         "\v",          "/\\\n/ c\n",    " /* // */ "};

struct OddRun {
  bool compiles = false;
  std::vector<long> values{};
};

OddRun CompileAlone(const std::string& text, const std::string& compiler) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "f.c", std::ios::binary) << text;
  std::ofstream(folder / "main.c") << kOddMain;
  const std::string compile =
      "cd " + folder.path() + " && " + compiler + " -std=gnu17 -w -O0 -o p f.c main.c > log 2>&1";
  OddRun run;
  run.compiles = std::system(compile.c_str()) == 0;
  if (!run.compiles) return run;
  (void)std::system(("cd " + folder.path() + " && timeout 5 ./p > out 2> log").c_str());
  std::istringstream out(TextOf(folder / "out"));
  for (long value = 0; out >> value;) run.values.push_back(value);
  return run;
}

bool IsRight(const OddRun& run) {
  constexpr size_t kWidth = 2 * kOddRange + 1;
  if (!run.compiles || run.values.size() != kWidth * kWidth) return false;
  for (int a = -kOddRange, at = 0; a <= kOddRange; ++a) {
    for (int b = -kOddRange; b <= kOddRange; ++b, ++at) {
      if (run.values[static_cast<size_t>(at)] != a * 2 + b) return false;
    }
  }
  return true;
}

void Insert(Random& random, std::string& text) {
  const size_t at = text.find("int f(");
  const auto one = [&](const auto& pieces) {
    return std::string(pieces[random.Below(pieces.size())]);
  };
  switch (random.Below(6)) {
    case 0:
    case 1:
      text.insert(0, one(kBefore));
      return;
    case 2:
      if (at != std::string::npos) text.insert(text.rfind("int f("), one(kSpecifiers));
      return;
    case 3:
      if (const size_t place = text.rfind("(int a,"); place != std::string::npos) {
        text.replace(place + 1, 5, one(kParameters));
      }
      return;
    case 4:
      if (const size_t place = text.rfind(" return a"); place != std::string::npos) {
        text.insert(place, " " + one(kBody));
      }
      return;
    default:
      break;
  }
  std::vector<size_t> blanks;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') blanks.push_back(i);
  }
  const size_t place = blanks[random.Below(blanks.size())];
  text.replace(place, random.Chance(0.5) ? 1 : 0, one(kBlanks));
}

}  // namespace

const char kOddReference[] = "int f(int a, int b) { return a * 2 + b; }\n";

Result<std::vector<OddText>> ReadOddTexts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound(path + " cannot be read");
  std::vector<OddText> texts;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("==== ")) {
      texts.push_back({line.substr(5), ""});
    } else if (!texts.empty()) {
      texts.back().text += line + "\n";
    }
  }
  return texts;
}

OddText DrawOddText(Random random) {
  OddText odd{"drawn", kOddReference};
  for (uint64_t left = random.Below(3) + 1; left > 0; --left) Insert(random, odd.text);
  return odd;
}

std::string OddContradiction(const std::string& text, const std::vector<std::string>& compilers,
                             bool* proved) {
  ProofOptions options;
  options.function = "f";
  options.has_range = true;
  options.low = -kOddRange;
  options.high = kOddRange;
  const auto proof = ProveEquivalent({kOddReference, text}, options);
  const Status no_c = WhyNoC(text, "f");
  *proved = proof.ok() && proof->verdict == ProofVerdict::kProved;
  const bool refuted = proof.ok() && proof->verdict == ProofVerdict::kRefuted;
  if (!*proved && !refuted && no_c.ok()) return "";
  for (const std::string& compiler : compilers) {
    const OddRun run = CompileAlone(text, compiler);
    const bool right = IsRight(run);
    if (*proved && !right) {
      return compiler + (run.compiles ? " gives other values" : " refuses it") +
             ", and it is proved";
    }
    if (refuted && right && proof->candidate.returns)
      return compiler + ": right, and " + proof->Text();
    if (!no_c.ok() && run.compiles)
      return compiler + " takes it, and it is no C: " + no_c.message();
  }
  return "";
}

}  // namespace tidemill
