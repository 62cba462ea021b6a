#include "reward/verifiers/c_machine.h"

#include <gtest/gtest.h>

namespace tidemill {
TEST(CMachine, Adds) {
  auto p = ParseC(
      "int f(int a, int b) { int s = 0; for (int i = 0; i < a; i++) s += b; return s; }", "f");
  ASSERT_TRUE(p.ok()) << p.status().ToString();
  auto c = CompileC(*p);
  ASSERT_TRUE(c.ok());
  CMachine m(*c);
  const int64_t args[] = {3, 4};
  EXPECT_EQ(m.Run(args, 1000).value, 12);
}
}  // namespace tidemill
