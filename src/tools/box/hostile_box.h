// The fixture of the tests that try to break a box: hostile_limits_test.cc takes more than it is
// given, hostile_escape_test.cc reaches for what is outside.
#pragma once

#include <string>

#include "tools/box/box_fixture.h"

namespace tidemill {

// A box whose command means harm: afterwards the next one runs as if nothing had been.
class HostileBox : public BoxTest {
 protected:
  void TearDown() override {
    const RunReport next = Shell("echo next");
    EXPECT_EQ(next.out, "next\n") << "the executor does not serve any more: " << next.cause;
    BoxTest::TearDown();
    EXPECT_EQ(host().alive(), 0u);
    EXPECT_EQ(CountCgroups(), 0u);
  }
  static std::string Name(const RunReport& report) {
    return std::string(OutcomeName(report.outcome));
  }
  static BoxLimits Small() {
    BoxLimits limits;
    limits.wall = std::chrono::seconds(20);
    limits.memory_bytes = 128 << 20;
    return limits;
  }
};

}  // namespace tidemill
