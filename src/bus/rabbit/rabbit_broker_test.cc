// What RabbitBus does with the broker beyond the contract: dead connections, TLS, users, the run's
// book, and what people look at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <memory>

#include "bus/broker.h"
#include "bus/rabbit/rabbit_bus.h"
#include "bus/rabbit/rabbit_client.h"
#include "bus/rabbit/rabbit_inspector.h"
#include "bus/rabbit/rabbit_users.h"
#include "testing/bus_test_kit.h"
#include "testing/rabbit_test_server.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class RabbitBroker : public testing::Test {
 protected:
  void SetUp() override {
    if (SharedRabbit() == nullptr) GTEST_SKIP() << "rabbitmq-server is not installed";
    run_ = testing::UnitTest::GetInstance()->current_test_info()->name();
    run_ = std::to_string(std::hash<std::string>()(run_)) + "-" + std::to_string(getpid());
  }

  std::unique_ptr<RabbitBus> Join(const std::function<void(RabbitBusOptions&)>& change = {}) {
    RabbitBusOptions options;
    options.url = SharedRabbit()->url();
    options.run = run_;
    options.tick = milliseconds(20);
    options.reconnect_min = milliseconds(5);
    options.reconnect_max = milliseconds(50);
    if (change) change(options);
    auto bus = RabbitBus::Connect(options);
    EXPECT_TRUE(bus.ok()) << bus.status().ToString();
    return bus.ok() ? std::move(*bus) : nullptr;
  }

  static std::vector<Lease> Take(Bus& bus, std::string_view topic, size_t count) {
    std::vector<Lease> taken;
    EXPECT_TRUE(Eventually([&] {
      auto some = bus.Receive(topic, count - taken.size());
      for (Lease& lease : *some) taken.push_back(std::move(lease));
      return taken.size() >= count;
    })) << "only "
        << taken.size() << " of " << count << " came on " << topic;
    return taken;
  }

  std::string run_;
};

TEST_F(RabbitBroker, WhatAKilledClientHeldIsDeliveredAgainWithItsCountOneHigher) {
  auto mine = Join();
  ASSERT_TRUE(mine->Open("t", {}).ok());
  ASSERT_TRUE(mine->Publish("t", "work").ok());
  ASSERT_TRUE(mine->Flush(std::chrono::seconds(20)).ok());
  // A process that takes the message and is killed with it.
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto connection = RabbitConnection::Connect(ParseRabbitUrl(SharedRabbit()->url()).value(),
                                                std::chrono::seconds(20), 0);
    const RabbitNames names(run_);
    bool got = connection.ok() && (*connection)->OpenChannel(1).ok() &&
               (*connection)->Answer(1, std::chrono::seconds(20)).ok() &&
               (*connection)->Get(1, names.Topic("t")).ok();
    const auto answer = (*connection)->Answer(1, std::chrono::seconds(20));
    got = got && answer.ok() && answer->kind == RabbitEvent::Kind::kGot;
    (void)!write(told[1], got ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char got = 0;
  ASSERT_EQ(read(told[0], &got, 1), 1);
  EXPECT_EQ(got, 'y');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(told[0]);
  close(told[1]);
  const Lease again = Take(*mine, "t", 1)[0];
  EXPECT_EQ(again.body, "work");
  EXPECT_EQ(again.deliveries, 2u);
  EXPECT_TRUE(mine->Ack(again).ok());
}

TEST_F(RabbitBroker, BodiesOfEverySizeAndByteComeThrough) {
  auto bus = Join();
  ASSERT_TRUE(bus->Open("t", {}).ok());
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{131'064}, size_t{131'073}, size_t{3'000'000}}) {
    std::string body(size, '\0');
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * 31 % 256);
    ASSERT_TRUE(bus->Publish("t", body).ok());
    const Lease lease = Take(*bus, "t", 1)[0];
    EXPECT_TRUE(lease.body == body) << size;
    EXPECT_TRUE(bus->Ack(lease).ok());
  }
  EXPECT_EQ(bus->Publish("t", std::string(kBodyMax + 1, 'x')).code(), Code::kInvalid);
}

TEST_F(RabbitBroker, AMemberHearsOfTopicsThatOthersOpenAndRemove) {
  auto one = Join(), other = Join();
  ASSERT_TRUE(one->Open("inbox.tools-host-1.tools", {.capacity = 7}).ok());
  const auto known = [&] {
    const auto topics = other->Topics();
    return std::count(topics.begin(), topics.end(), "inbox.tools-host-1.tools") == 1;
  };
  EXPECT_TRUE(Eventually(known));
  EXPECT_TRUE(other->Publish("inbox.tools-host-1.tools", "hello").ok());
  EXPECT_EQ(Take(*one, "inbox.tools-host-1.tools", 1)[0].body, "hello");
  ASSERT_TRUE(one->Remove("inbox.tools-host-1.tools").ok());
  EXPECT_TRUE(Eventually([&] { return !known(); }));
  EXPECT_EQ(one->Losses(), 0u);
}

TEST_F(RabbitBroker, AQueueThatSomebodyDeletesIsALossAndIsMadeAgain) {
  auto bus = Join();
  ASSERT_TRUE(bus->Open("t", {}).ok());
  ASSERT_TRUE(bus->Publish("t", "lost").ok());
  ASSERT_TRUE(bus->Flush(std::chrono::seconds(20)).ok());
  auto client = RabbitClient::Connect(SharedRabbit()->url(), run_);
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE(client
                  ->OnChannel([&](RabbitClient::Channel& channel) {
                    return channel
                        .Ask([&](RabbitConnection& connection, uint16_t number) {
                          return connection.Delete(number, client->names().Topic("t"));
                        })
                        .status();
                  })
                  .ok());
  EXPECT_TRUE(Eventually([&] { return bus->Losses() > 0; }));
  EXPECT_TRUE(Eventually([&] { return bus->Publish("t", "again").ok(); }));
  EXPECT_EQ(Take(*bus, "t", 1)[0].body, "again");
}

TEST_F(RabbitBroker, TheRosterAddsUpWhatWorkersCounted) {
  auto bus = Join();  // the book lives while somebody is there
  auto roster = ConnectRoster(SharedRabbit()->url(), run_);
  ASSERT_TRUE(roster.ok()) << roster.status().ToString();
  v1::Heartbeat beat;
  beat.set_worker("tools-a");
  beat.set_role("tools");
  beat.set_started_ms(1);
  ASSERT_TRUE((*roster)->Beat(beat, {{"calls", 3}}).ok());
  ASSERT_TRUE((*roster)->Beat(beat, {{"calls", 5}}).ok());
  beat.set_worker("tools-b");
  ASSERT_TRUE((*roster)->Beat(beat, {{"calls", 10}}).ok());
  auto newcomer = ConnectRoster(SharedRabbit()->url(), run_);
  ASSERT_TRUE(newcomer.ok());
  EXPECT_TRUE(Eventually([&] { return (*newcomer)->Workers()->size() == 2; }));
  EXPECT_EQ((*newcomer)->Totals()->at("tools/calls"), 15);
  ASSERT_TRUE((*roster)->Leave("tools-a").ok());
  EXPECT_TRUE(Eventually([&] { return (*newcomer)->Workers()->size() == 1; }));
  EXPECT_EQ((*newcomer)->Totals()->at("tools/calls"), 15);
}

TEST_F(RabbitBroker, NotesComeAndGo) {
  auto bus = Join();
  auto one = ConnectNotes(SharedRabbit()->url(), run_),
       other = ConnectNotes(SharedRabbit()->url(), run_);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_FALSE((*other)->Get("sheet")->has_value());
  ASSERT_TRUE((*one)->Put("sheet", "text", std::chrono::minutes(1)).ok());
  EXPECT_TRUE(Eventually([&] { return (*other)->Get("sheet")->value_or("") == "text"; }));
  ASSERT_TRUE((*one)->Erase("sheet").ok());
  EXPECT_TRUE(Eventually([&] { return !(*other)->Get("sheet")->has_value(); }));
}

TEST_F(RabbitBroker, ObjectsSmallAndLargeAreReadByManyAndGo) {
  auto bus = Join();
  auto writer = ConnectPlace(SharedRabbit()->url(), run_),
       reader = ConnectPlace(SharedRabbit()->url(), run_);
  ASSERT_TRUE(writer.ok() && reader.ok());
  std::string large(2'500'000, 'x');
  for (size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>(i);
  const std::string_view parts[] = {std::string_view(large).substr(0, 10),
                                    std::string_view(large).substr(10)};
  const std::string_view small[] = {"{\"newest\": 3}"};
  ASSERT_TRUE((*writer)->Put("weights-3", parts).ok());
  ASSERT_TRUE((*writer)->Put("newest", small).ok());
  EXPECT_TRUE(Eventually([&] { return (*reader)->Get("newest", 100).ok(); }));
  EXPECT_EQ((*reader)->Get("newest", 100).value(), small[0]);
  for (int i = 0; i < 2; ++i) {
    std::string read(large.size(), '\0');
    const Status got = (*reader)->Read("weights-3", std::as_writable_bytes(std::span(read)));
    EXPECT_TRUE(got.ok()) << got.ToString();
    EXPECT_TRUE(read == large);
  }
  const std::string_view all[] = {"weights"};
  ASSERT_TRUE((*writer)->Clear(all).ok());
  EXPECT_TRUE(Eventually([&] {
    std::string read(large.size(), '\0');
    return (*reader)->Read("weights-3", std::as_writable_bytes(std::span(read))).code() ==
           Code::kNotFound;
  }));
}

TEST_F(RabbitBroker, AnInspectorSeesWhatWaitsIsHeldAndIsDelayed) {
  auto bus = Join();
  ASSERT_TRUE(bus->Open("t", {}).ok());
  for (const char* body : {"a", "b", "c"}) ASSERT_TRUE(bus->Publish("t", body).ok());
  const std::vector<Lease> held = Take(*bus, "t", 2);
  ASSERT_TRUE(bus->Release(held[0], std::chrono::hours(1)).ok());
  ASSERT_TRUE(bus->Flush(std::chrono::seconds(20)).ok());
  auto inspector = ConnectInspector(SharedRabbit()->url());
  ASSERT_TRUE(inspector.ok());
  EXPECT_EQ((*inspector)->CheckRun("nobodys").code(), Code::kNotFound);
  ASSERT_TRUE((*inspector)->CheckRun(run_).ok());
  const auto state = [&]() -> TopicState {
    const auto topics = (*inspector)->Topics(run_);
    for (const TopicState& topic : topics.value()) {
      if (topic.name == "t") return topic;
    }
    return {};
  };
  EXPECT_TRUE(Eventually([&] {
    const TopicState now = state();
    return now.ready == 1 && now.leased == 1 && now.delayed == 1;
  }));
  std::vector<std::string> bodies;
  ASSERT_TRUE(
      (*inspector)
          ->ForEachMessage(run_, "t", [&](std::string_view body) { bodies.emplace_back(body); })
          .ok());
  EXPECT_THAT(bodies, UnorderedElementsAre("a", "b", "c"));
}

TEST_F(RabbitBroker, DeadLettersAreListedRetriedAndDropped) {
  auto bus = Join();
  ASSERT_TRUE(bus->Open("t", {}).ok());
  for (const char* body : {"retried", "dropped"}) {
    ASSERT_TRUE(bus->Publish("t", body).ok());
    ASSERT_TRUE(bus->Reject(Take(*bus, "t", 1)[0], "no good").ok());
    ASSERT_TRUE(bus->Flush(std::chrono::seconds(20)).ok());
  }
  auto inspector = ConnectInspector(SharedRabbit()->url());
  ASSERT_TRUE(inspector.ok());
  const auto letters = (*inspector)->DeadLetters(run_, {});
  ASSERT_TRUE(letters.ok()) << letters.status().ToString();
  ASSERT_EQ(letters->size(), 2u);
  EXPECT_EQ((*letters)[0].body, "retried");
  EXPECT_EQ((*letters)[0].reason, "no good");
  EXPECT_EQ((*inspector)->DeadLetter(run_, (*letters)[1].id)->body, "dropped");
  ASSERT_TRUE((*inspector)->Retry(run_, (*letters)[0].id).ok());
  ASSERT_TRUE((*inspector)->Drop(run_, (*letters)[1].id).ok());
  EXPECT_EQ((*inspector)->Drop(run_, (*letters)[1].id).code(), Code::kNotFound);
  EXPECT_TRUE((*inspector)->DeadLetters(run_, {})->empty());
  EXPECT_EQ(Take(*bus, "t", 1)[0].body, "retried");
}

TEST_F(RabbitBroker, ARunThatIsRemovedLeavesNoMessages) {
  {
    auto bus = Join();
    ASSERT_TRUE(bus->Open("rollout.groups", {}).ok());
    ASSERT_TRUE(bus->Publish("rollout.groups", "old").ok());
    ASSERT_TRUE(bus->Flush(std::chrono::seconds(20)).ok());
  }
  ASSERT_TRUE(RemoveRun(SharedRabbit()->url(), run_).ok());
  auto inspector = ConnectInspector(SharedRabbit()->url());
  EXPECT_EQ((*inspector)->CheckRun(run_).code(), Code::kNotFound);
}

TEST_F(RabbitBroker, ARunHasOneKindOfQueues) {
  auto classic = Join();
  const auto quorum =
      ConnectBus({.url = SharedRabbit()->url() + "?queues=quorum", .run = run_, .client = ""});
  EXPECT_EQ(quorum.status().code(), Code::kInvalid);
  EXPECT_THAT(quorum.status().message(), HasSubstr("x-queue-type"));
}

// A broker of its own, with TLS and the users of a run.
class RabbitUsers : public testing::Test {
 protected:
  void SetUp() override {
    if (RabbitTestServer::Home().empty()) GTEST_SKIP() << "rabbitmq-server is not installed";
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj "
        "/CN=broker -addext subjectAltName=IP:127.0.0.1 -keyout " +
        (files_ / "key") + " -out " + Ca() + " 2>" + (files_ / "log");
    ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(cert-env33-c): a test's own
    users_ = RabbitUsersOf("mine").value();
    ASSERT_TRUE(WriteRabbitUsers("mine", users_, files_ / "users").ok());
    port_ = FreePort();
    server_ = std::make_unique<RabbitTestServer>(
        "listeners.ssl.1 = 127.0.0.1:" + std::to_string(port_) +
        "\nssl_options.certfile = " + Ca() + "\nssl_options.keyfile = " + (files_ / "key") +
        "\nload_definitions = " + (files_ / "users/definitions.json") + "\n");
  }

  std::string Ca() const { return files_ / "pem"; }
  std::string Url(const std::string& role, const std::string& ca) const {
    for (const RabbitUser& user : users_) {
      if (user.role == role) {
        return "amqps://" + user.name + ":" + user.password +
               "@127.0.0.1:" + std::to_string(port_) + "/mine?ca=" + ca;
      }
    }
    return "";
  }
  Result<std::unique_ptr<RabbitBus>> Join(const std::string& role, const std::string& ca,
                                          const std::string& run = "mine") {
    RabbitBusOptions options;
    options.url = Url(role, ca);
    options.run = run;
    options.client = role;
    options.reconnect_max = milliseconds(50);  // it does not wait long for a broker that is back
    return RabbitBus::Connect(std::move(options));
  }
  // What the broker says to one message of the topic being taken.
  Status TakeRaw(const std::string& role, std::string_view topic) {
    constexpr Duration kTimeout = std::chrono::seconds(20);
    TM_ASSIGN_OR_RETURN(const RabbitAddress address, ParseRabbitUrl(Url(role, Ca())));
    TM_ASSIGN_OR_RETURN(const auto raw, RabbitConnection::Connect(address, kTimeout, 0));
    TM_RETURN_IF_ERROR(raw->OpenChannel(1));
    TM_RETURN_IF_ERROR(raw->Answer(1, kTimeout).status());
    TM_RETURN_IF_ERROR(raw->Get(1, RabbitNames("mine").Topic(topic)));
    return raw->Answer(1, kTimeout).status();
  }

  TemporaryDirectory files_;
  std::vector<RabbitUser> users_;
  int port_ = 0;
  std::unique_ptr<RabbitTestServer> server_;
};

TEST_F(RabbitUsers, AreKeptApartAndMessagesOutliveTheBroker) {
  // Not signed by one of these.
  EXPECT_EQ(Join("tools", "/etc/ssl/certs/ca-certificates.crt").status().code(), Code::kInvalid);
  EXPECT_EQ(Join("tools", Ca(), "other").status().code(), Code::kInvalid);
  auto learner = Join("learner", Ca()), tools = Join("tools", Ca());
  ASSERT_TRUE(learner.ok()) << learner.status().ToString();
  ASSERT_TRUE(tools.ok()) << tools.status().ToString();
  for (const char* topic : {"tools.compile", "rollout.groups"}) {
    ASSERT_TRUE((*learner)->Open(topic, {}).ok());
    ASSERT_TRUE((*learner)->Publish(topic, "kept").ok());
  }
  ASSERT_TRUE((*learner)->Flush(std::chrono::seconds(20)).ok());
  EXPECT_TRUE(TakeRaw("rollout", "rollout.groups").ok());
  // Groups are none of a tool worker's business.
  EXPECT_THAT(TakeRaw("tools", "rollout.groups").message(), HasSubstr("ACCESS_REFUSED"));
  server_->Stop();
  server_->Start();
  ASSERT_TRUE((*tools)->Open("tools.compile", {}).ok());
  std::vector<Lease> taken;
  ASSERT_TRUE(Eventually([&] {
    taken = (*tools)->Receive("tools.compile", 1).value();
    return !taken.empty();
  }));
  EXPECT_EQ(taken[0].body, "kept");
  EXPECT_TRUE((*tools)->Ack(taken[0]).ok());
  EXPECT_TRUE((*tools)->Flush(std::chrono::seconds(20)).ok());
  EXPECT_EQ((*learner)->Losses(), 0u);
}

}  // namespace
}  // namespace tidemill
