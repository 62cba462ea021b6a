// The promises of testing/weight_wire_contract.h on objects of a broker.
#include <gtest/gtest.h>

#include "bus/broker.h"
#include "testing/redis_test_server.h"
#include "testing/weight_wire_contract.h"

namespace tidemill {
namespace {

std::unique_ptr<WeightWay> BrokerWay() {
  auto server = std::make_shared<RedisTestServer>();
  return std::make_unique<ObjectsWay>(
      [url = server->url()] { return ConnectPlace(url, "test").value(); }, 16, server);
}

const WeightWayCase kBrokerCases[] = {
    {"Redis", BrokerWay, 1, 60},
    {"RedisOfDeltas", BrokerWay, 64, 60},
};

std::string CaseName(const testing::TestParamInfo<WeightWayCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Broker, WeightWire, testing::ValuesIn(kBrokerCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Broker, WeightObjects, testing::ValuesIn(kBrokerCases), CaseName);

}  // namespace
}  // namespace tidemill
