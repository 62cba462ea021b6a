#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prover/c_ast.h"
#include "prover/c_lexer.h"

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Status ParsedAs(const std::string& text) {
  return ParseC(text, "f").status();
}

TEST(CParser, ReadsWhatSmallFunctionsAreMadeOf) {
  for (const char* text : {
           "int f(int a, int b) { return a + b; }",
           "#include <stdio.h>\nint f(void) { return 0; }\nint main() { printf(\"%f\", 1.5); }",
           "unsigned long long f(const unsigned a) { return ~0ull >> (a & 63u); }",
           "#define N 4\n#define MAX(x, y) ((x) > (y) ? (x) : (y))\nint f(int a) { int t[N] = "
           "{MAX(a, 1)}; "
           "return t[N - 1]; }",
           "enum color { RED, GREEN = 5 };\nint f(int a) { enum color c = GREEN; return c + a; }",
           "static const int t[] = {1, 2, [5] = 3};\nint f(int a) { return sizeof t / sizeof *t + "
           "a; }",
           "int f(int a) { switch (a) { case 'x': return 1; default: ; } do a--; while (a > 0); "
           "return a; }",
           "static int g(int); int f(int a) { return g(a); } static int g(int x) { return x ? g(x "
           "- 1) : 0; }",
           "int f(int a) { int m[2][3] = {{1, 2, 3}, {4}}; return m[a & 1][2]; }",
           "static void s(int *p, int *q) { int t = *p; *p = *q; *q = t; }\n"
           "int f(int a, int b) { s(&a, &b); return a; }",
           "int f(a, b) int a; int b; { return a + b; }",
           "int f(a, b) long b, a; { return a + b; }",
           "static __attribute__((__unused__, noinline)) int g(int a) { return a; }\n"
           "int f(int a __attribute__((unused))) { int b __attribute__((unused)) = g(1); return b; "
           "}",
           "int f(int) __attribute__((noinline)); int f(int a) { return a; }",
           "_Static_assert(sizeof(int) == 4, \"\"); int f(int a) { _Static_assert(1); return a; }",
           "static inline int g(int a) { return a; } extern int f(int); int f(int a) { return "
           "g(a); }",
           "int f(int a) { return a + \\\n 1 \\ \n + 2; }",
       }) {
    EXPECT_TRUE(ParsedAs(text).ok()) << text << "\n" << ParsedAs(text).ToString();
  }
}

TEST(CParser, TextThatIsNoCIsInvalid) {
  for (const char* text : {
           "",
           "hello world, this is prose",
           "def f(a, b):\n    return a + b\n",
           "int f(int a) { return a + ; }",
           "int f(int a) { return b; }",
           "int f(int a) { return a }",
           "int f(int a) { return a; ",
           "int f(int a) { int a2; int a2; return 0; }",
           "int f(int a) { 3 = a; return 0; }",
           "int f(int a) { break; return 0; }",
           "int f(int a) { switch (a) { case 1: case 1: return 0; } return 0; }",
           "int f(int a) { const int x = 1; x = a; return x; }",
           "int f(int a) { return \"abc; }",
           "int f(int a) { return 08; }",
           "int f(int a) { return g(a, 1); } static int g(int x) { return x; }",
           "int f(int a) { return a; } int f(int a) { return a; }",
           "int f(int a) { int a = 2; return a; }",
           "int f(register int a) { return *&a; }",
           "int g(int); static int g(int a) { return a; } int f(int a) { return g(a); }",
           "static int g(void) { return b; } int f(int a) { return a; }",
           "int g(int a) { return a; }",
           "/* never closed",
           "int f(int a) { return a \\ 2; }",
       }) {
    EXPECT_EQ(ParsedAs(text).code(), Code::kInvalid) << text << "\n" << ParsedAs(text).ToString();
  }
}

TEST(CParser, COutsideTheSubsetIsSaidToBe) {
  for (const char* text : {
           "double f(int a) { return a; }",
           "int f(int a) { struct { int x; } s; s.x = a; return s.x; }",
           "int f(int a) { again: if (a-- > 0) goto again; return a; }",
           "int f(int a) { return printf(\"%d\", a); }",
           "int f(int a) { int t[a]; return t[0]; }",
           "static int calls; int f(int a) { return a + calls++; }",
           "int f(int a) { volatile int x = a; return x; }",
           "extern int x; int f(int a) { return x; }",
           "int f(int a) { int **p; return a; }",
           "int f(a) struct s a; { return a.x; }",
           "int f(a) short a; { return a; }",
           "int f(int a) { int *p; { int x = a; p = &x; } return *p; }",
           // What is not read may not compile.
           "typedef struct { double x; } unused;\nint f(int a) { return a; }",
           "int g(p) struct s *p; { return p->x; } int f(int a) { return a; }",
           // What other files cannot call.
           "static int f(int a) { return a; }",
           "inline int f(int a) { return a; }",
           "inline int g(int a) { return a; } int f(int a) { return g(a); }",
           // What only compilers know.
           "int f(int a) { int x __attribute__((mode(QI))) = a; return x; }",
           "__attribute__((constructor)) static void g(void) {} int f(int a) { return a; }",
           "int f(int a) __attribute__((noinline)) { return a; }",
           "int f(int a) { return _Generic(a, int: a); }",
           "_Static_assert(0, \"\"); int f(int a) { return a; }",
           "_Noreturn int f(int a) { return a; }",
           "int int32_t; int f(int a) { return a; }",
           "int abs(int x) { return x; } int f(int a) { return abs(a); }",
           "__asm__(\"\"); int f(int a) { return a; }",
           "#pragma weak f = g\nint f(int a) { return a; }",
           "#ifdef linux\n#endif\nint f(int a) { return a; }",
           "#include <own.h>\nint f(int a) { return a; }",
           // What compilers read as it is not meant.
           "int f(int a) { // c \\ \n a = 0;\n return a; }",
           "int f(int a) { /* *\\\n/ a = 0; /* */ return a; }",
           "int f(int a) { retur\\\nn a; }",
           "int f(int a) <% return a; %>",
           "int f(int a) { return \"x\\\ny\"[0]; }",
           "const int f(int a) { return a; }",
           "int f(int a) { int b$ = a; return b$; }",
       }) {
    EXPECT_EQ(ParsedAs(text).code(), Code::kUnavailable) << text << "\n"
                                                         << ParsedAs(text).ToString();
  }
}

TEST(CParser, AResultThatDependsOnTheOrderOfEvaluationIsRefused) {
  for (const char* text : {
           "int f(int a) { a = a++ + 1; return a; }",
           "int f(int a) { return a++ + a; }",
           "int f(int a) { int t[3] = {0}; t[a] = a++; return t[0]; }",
           "int f(int a) { int t[2] = {a++, a++}; return t[0]; }",
           "static int g(int *p) { return ++*p; } int f(int a) { return g(&a) + g(&a); }",
           "static int g(int *p) { return ++*p; } int f(int a) { a += g(&a); return a; }",
           "int f(int a) { int t[2] = {0}; t[0] = t[1] = t[a]++; return t[1]; }",
           "static void g(int *p, char *q) { *p = *q = 1; } int f(int a) { char b; g(&a, &b); "
           "return a; }",
           "static int g(int *p) { return ++*p; } int f(int a) { int t[2] = {a}; t[0] ^= g(t); "
           "return *t; }",
       }) {
    EXPECT_THAT(ParsedAs(text).ToString(), HasSubstr("order of evaluation")) << text;
  }
  for (const char* text : {
           "int f(int a) { a = a + 1, a++; return a && a++ ? a : a--; }",
           "int f(int a) { int t[3] = {0}, i = 0; t[i++] = a; t[i] = t[i - 1]; return t[1]; }",
           "static int g(const int *p) { return *p; } int f(int a) { return g(&a) + g(&a); }",
           "static int g(int *p) { return ++*p; } int f(int a) { a = g(&a); return a; }",
           "static int g(const int *p) { return *p; } int f(int a) { a += g(&a); return a; }",
           "int f(int a) { int t[3] = {0}, i = 0; t[i++] += a; return t[0]; }",
           "int f(int a) { int t[3]; t[0] = t[1] = t[2] = a; return t[1]; }",
           "static void g(int *p, int *q) { *p = *q = 1; } int f(int a) { int b; g(&a, &b); return "
           "a; }",
       }) {
    EXPECT_TRUE(ParsedAs(text).ok()) << text << "\n" << ParsedAs(text).ToString();
  }
}

TEST(CParser, HostileTextIsBounded) {
  const auto repeated = [](const std::string& piece, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece;
    return text;
  };
  const std::string start = "int f(int a) { return ";
  EXPECT_FALSE(ParsedAs(start + repeated("(", 100'000)).ok());
  EXPECT_FALSE(ParsedAs(start + repeated("-", 100'000) + "a; }").ok());
  EXPECT_FALSE(ParsedAs(start + "a" + repeated(" + a", 50'000) + "; }").ok());
  EXPECT_FALSE(ParsedAs("int f(int a) " + repeated("{", 100'000)).ok());
  EXPECT_FALSE(ParsedAs("int f(int a) { int t[1000000000]; return 0; }").ok());
  EXPECT_FALSE(ParsedAs(repeated(" ", 1 << 20)).ok());
  // Each macro is twice the one before it.
  std::string macros = "#define M0 a + a\n";
  for (int i = 1; i < 60; ++i) {
    const std::string before = "M" + std::to_string(i - 1);
    macros += "#define M" + std::to_string(i) + " " + before + " + " + before + "\n";
  }
  EXPECT_FALSE(ParsedAs(macros + start + "M59; }").ok());
}

TEST(CParser, NamesTheFunctionsOfAText) {
  const auto names =
      FunctionsOfC("int g(int); static int h(int a) { return a; } int f(void) { return 1; }");
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("h", "f"));
}

TEST(CParser, AMessageHasTheLine) {
  EXPECT_THAT(ParsedAs("int f(int a) {\n  int b = 1;\n  return c;\n}").message(),
              HasSubstr("line 3: \"c\" is not declared"));
}

// Only what every compiler refuses.
TEST(WhyNoC, NamesFaultsOfTheGrammarAndNothingElse) {
  const auto body = [](const char* text) {
    return "int f(int a, int b) { " + std::string(text) + " }";
  };
  for (const char* text : {"return a+;", "return 2a;", "return (a;", "return a b;", "return a?b;",
                           "if a) return b;", "return a[;", "for (;;", "return )a("}) {
    EXPECT_FALSE(WhyNoC(body(text), "f").ok()) << text;
  }
  for (const char* text : {"return a+b;",
                           "return a ?: b;",
                           "return ({ a; });",
                           "switch (a) { case 1 ... 3: ; } return b;",
                           "return g(a);",
                           "__typeof__(a) c = a; return c;",
                           "typeof(a) c; return a;",
                           "goto x; x: return a;",
                           "const int c = 1; c = 2; return c;",
                           "return;",
                           "int x[2] = {1, 2, 3}; return x[0];",
                           "asm volatile (\"nop\"); return a;",
                           "return c;",
                           "struct { int x; } s; return s.x;",
                           "float x = 1.5f; return x;",
                           "return f(a);",
                           "return \"x\"[0];",
                           "x: return 0;",
                           "int g(c) int c; { return c; } return g(a);",
                           "int g(int c) { return c; } return g(a);",
                           "return 0b11;",
                           "return 0b;",
                           "return 1lul;",
                           "return sizeof(struct s);",
                           "return _Generic(a, int: b);",
                           "void *p = &&x; goto *p; x: return a;",
                           "[[maybe_unused]] int c; return a;",
                           "int c __attribute__((unused)) = 2; return c;",
                           "int c$ = a; return c$;",
                           "return 2i;",
                           "return '\\777';",
                           "retu\\\nrn a;",
                           "return \"x\\\ny\"[0];",
                           "return (int *volatile)0 == 0;",
                           "\n#if 0\nyou don't\n#endif\nreturn a;"}) {
    EXPECT_TRUE(WhyNoC(body(text), "f").ok()) << text << ": " << WhyNoC(body(text), "f").message();
  }
}

}  // namespace
}  // namespace tidemill
