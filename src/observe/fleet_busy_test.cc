#include "observe/fleet_busy.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

RosterEntry Worker(const std::string& role, Duration age = {}) {
  RosterEntry entry;
  entry.beat.set_role(role);
  entry.age = age;
  return entry;
}

RosterTotals Engine(double busy, double time) {
  return {{"rollout/busy_port_engine", busy},
          {"rollout/time_port_engine", time},
          {"rollout/tokens", 5}};
}

TEST(FleetBusy, SharesAreOfTheRunsTimeWhateverTheFleetsSize) {
  FleetBusy busy;
  const std::vector<RosterEntry> two = {Worker("rollout"), Worker("rollout")};
  busy.Take(Engine(1000, 2000), two);  // what earlier workers did is not of now
  EXPECT_EQ(busy.Shares(10).at(0).share, 0);
  // Two workers for ten seconds each, half of it busy.
  busy.Take(Engine(1010, 2020), two);
  const std::vector<FleetShare> shares = busy.Shares(20);
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].name, "engine");
  EXPECT_TRUE(shares[0].port);
  EXPECT_DOUBLE_EQ(shares[0].share, 0.25) << "10 seconds at 0, 10 at 0.5";
}

TEST(FleetBusy, ASilentFleetKeepsItsShareUntilItIsLost) {
  FleetBusy busy;
  busy.Take(Engine(0, 0), {Worker("rollout")});
  busy.Take(Engine(2, 2), {Worker("rollout")});
  EXPECT_DOUBLE_EQ(busy.Shares(2).at(0).share, 1);
  busy.Take(Engine(2, 2), {Worker("rollout", std::chrono::seconds(5))});
  EXPECT_DOUBLE_EQ(busy.Shares(4).at(0).share, 1);
  busy.Take(Engine(2, 2), {Worker("rollout", std::chrono::seconds(11))});
  EXPECT_DOUBLE_EQ(busy.Shares(8).at(0).share, 0.5);
}

TEST(FleetBusy, NumbersThatMakeNoSenseStayBetweenZeroAndOne) {
  FleetBusy busy;
  busy.Take({{"rollout/busy_loop_x", 1}, {"busy_loop_y", 1}, {"/busy_port_", 3}}, {});
  busy.Take({{"rollout/busy_loop_x", 50}, {"rollout/time_loop_x", 2}}, {Worker("rollout")});
  for (const FleetShare& share : busy.Shares(5)) {
    EXPECT_GE(share.share, 0);
    EXPECT_LE(share.share, 1);
  }
}

}  // namespace
}  // namespace tidemill
