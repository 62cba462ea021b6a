#include "prover/normal_form.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

std::optional<NormalForm> Form(const std::string& expression, int64_t bound = 100) {
  const auto program = ParseC("int f(int a, int b) { " + expression + " }", "f");
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return NormalFormOf(*program, {{"a", kCInt, -bound, bound}, {"b", kCInt, -bound, bound}});
}

TEST(NormalForm, TheSameFunctionHasTheSameForm) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"return a * (b + 2);", "return a * b + 2 * a;"},
      {"return (a - b) * (a + b);", "return a * a - b * b;"},
      {"return a < b ? a : b;", "return b > a ? a : b;"},
      {"return a <= 3 ? b : 0;", "return !(a > 3) ? b : 0;"},
      {"return a < 4 ? b : 0;", "if (a <= 3) return b; return 0;"},
      {"return a * 2 < 5 ? 1 : 0;", "return a < 3 ? 1 : 0;"},
      {"return 2 * a > 5 ? 1 : 0;", "return a > 2 ? 1 : 0;"},
      {"return a >= b ? a : b;", "if (b - a > 0) return b; else return a;"},
      {"return a == b ? a : b;", "return b;"},
      {"int x = a + b; return x * x;", "return a * a + 2 * a * b + b * b;"},
  };
  for (const auto& [left, right] : pairs) {
    const auto a = Form(left), b = Form(right);
    ASSERT_TRUE(a && b) << left;
    // "a == b ? a : b" is b, but not by its form.
    if (left == "return a == b ? a : b;") {
      EXPECT_FALSE(*a == *b);
    } else {
      EXPECT_TRUE(*a == *b) << left << " " << right;
    }
  }
}

TEST(NormalForm, DifferentFunctionsHaveDifferentForms) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"return a * 2 < 5 ? 1 : 0;", "return a <= 3 ? 1 : 0;"},
      {"return -2 * a < 5 ? 1 : 0;", "return a > -2 ? 1 : 0;"},
      {"return a <= b ? 0 : 1;", "return a < b ? 0 : 1;"},
      {"return a - b;", "return b - a;"},
  };
  for (const auto& [left, right] : pairs) {
    const auto a = Form(left), b = Form(right);
    ASSERT_TRUE(a && b) << left;
    EXPECT_FALSE(*a == *b) << left << " " << right;
  }
}

TEST(NormalForm, WhatMayOverflowHasNone) {
  EXPECT_TRUE(Form("return a * b;", 46340));
  EXPECT_FALSE(Form("return a * b;", 46341));
  EXPECT_FALSE(Form("return a * a * a - a * a * a;", 2000));
  EXPECT_FALSE(Form("return a < (unsigned)b ? 1 : 0;"));
  EXPECT_FALSE(Form("return (signed char)a;", 128));
  EXPECT_TRUE(Form("return (signed char)a;", 127));
}

TEST(NormalForm, OtherOperatorsHaveNone) {
  for (const char* body : {"return a / 2;", "return a & b;", "while (a) a--; return a;",
                           "int x; return x;", "a = 1; return a;", "return a++;"}) {
    EXPECT_FALSE(Form(body)) << body;
  }
}

}  // namespace
}  // namespace tidemill
