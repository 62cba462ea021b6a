// Adapters that come and go while a gateway serves.
#include "gateway/served_adapters.h"

#include <gmock/gmock.h>

#include <future>

#include "core/hash.h"
#include "testing/gateway_fixture.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ServedAdaptersTest : public GatewayTest {
 protected:
  static ScriptedOptions With(int32_t adapters) {
    ScriptedOptions options;
    options.adapters = adapters;
    return options;
  }
  std::string Load(const std::string& name, const std::string& path = "dir", int status = 200) {
    return Change("load", {{"lora_name", name}, {"lora_path", path}}, status);
  }
  std::string Unload(const std::string& name, int status = 200) {
    return Change("unload", {{"lora_name", name}}, status);
  }
  std::string Change(const std::string& what, const Json& body, int status) {
    const std::string answer = PostRaw("/v1/" + what + "_lora_adapter", body.dump());
    EXPECT_EQ(StatusOf(answer), status) << answer;
    return BodyOf(answer);
  }
  static Json For(const std::string& model) {
    Json body = Chat("hi");
    body["model"] = model;
    return body;
  }
  std::vector<std::string> Models() {
    RawClient client(port());
    client.Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const Json list = Json::parse(BodyOf(client.ReadToEnd()));
    std::vector<std::string> names;
    for (const Json& model : list.at("data")) names.push_back(model.at("id"));
    return names;
  }
  const std::string& model() const { return server_->policy().name; }
};

TEST_F(ServedAdaptersTest, AnAdapterAnswersRequestsThatNameItUntilItIsUnloaded) {
  Serve("bonjour", With(2));
  EXPECT_THAT(Models(), ElementsAre(model()));
  EXPECT_THAT(Load("french"), HasSubstr("Success: LoRA adapter 'french' added"));
  EXPECT_THAT(Models(), ElementsAre(model(), "french"));
  EXPECT_EQ(server_->engine().Stats().policies, 2u);
  EXPECT_EQ(Ask("/v1/chat/completions", For("french")).at("model"), "french");
  EXPECT_THAT(Unload("french"), HasSubstr("Success: LoRA adapter 'french' removed"));
  EXPECT_THAT(Models(), ElementsAre(model()));
  EXPECT_EQ(Ask("/v1/chat/completions", For("french")).at("model"), "french")
      << "a name that nobody has: the model itself answers";
}

TEST_F(ServedAdaptersTest, ARequestIsDrawnFromThePolicyOfItsAdapterAndNoOther) {
  Serve("bonjour", With(2));
  Load("french"), Load("dutch");
  // Behind the gateway's back: what names the first adapter has nothing to be drawn from.
  std::promise<Status> dropped;
  server_->engine().DropPolicy(PolicyId{1}, [&](Status status) { dropped.set_value(status); });
  ASSERT_TRUE(dropped.get_future().get().ok());
  Ask("/v1/chat/completions", For("dutch"));
  Ask("/v1/chat/completions", For(model()));
  EXPECT_GE(StatusOf(PostRaw("/v1/chat/completions", For("french").dump())), 400);
}

TEST_F(ServedAdaptersTest, WhatCannotBeLoadedIsSaidAndLeavesNothing) {
  Serve("x", With(1));
  EXPECT_THAT(Load("none", "missing", 404), HasSubstr("missing: there is no adapter"));
  EXPECT_THAT(Models(), ElementsAre(model()));
  Load("one");
  EXPECT_THAT(Load("one", "dir", 400), HasSubstr("taken"));
  EXPECT_THAT(Load(model(), "dir", 400), HasSubstr("taken"));
  EXPECT_THAT(Load("two", "dir", 503), HasSubstr("--max-loras"));
  EXPECT_THAT(Unload("two", 404), HasSubstr("no adapter"));
  EXPECT_THAT(Change("load", {{"lora_name", "x"}}, 400), HasSubstr("lora_path"));
  EXPECT_THAT(Change("load", {{"lora_name", 5}}, 400), HasSubstr("lora_name"));
  EXPECT_THAT(Change("unload", Json::array(), 400), HasSubstr("object"));
  Change("load", {{"lora_name", "one"}, {"lora_path", "d"}, {"load_inplace", true}}, 200);
  EXPECT_THAT(Models(), ElementsAre(model(), "one"));
  Change("load", {{"lora_name", "one"}, {"lora_path", "missing"}, {"load_inplace", true}}, 404);
  EXPECT_THAT(Models(), ElementsAre(model(), "one")) << "the old one stays";
}

TEST_F(ServedAdaptersTest, AStrictServerKnowsTheModelAndItsAdapters) {
  ScriptedOptions options = With(1);
  options.gateway.strict_model = true;
  Serve("x", std::move(options));
  Load("french");
  Ask("/v1/chat/completions", For("french"));
  Ask("/v1/chat/completions", For(model()));
  Ask("/v1/chat/completions", For("german"), 404);
}

TEST_F(ServedAdaptersTest, ATenantThatIsBoundToAPolicyIsAnsweredByItAndNoOther) {
  ScriptedOptions options = With(2);
  const std::string key = "tmk-lab";
  options.gateway.keys =
      ApiKeys::Parse("sha256:" + Sha256Hex(key) + " tenant=lab policy=french\n", "keys").value();
  Serve("bonjour", std::move(options));
  const std::string header = "Authorization: Bearer " + key + "\r\n";
  const auto ask = [&](const std::string& model) {
    return PostRaw("/v1/chat/completions", For(model).dump(), header);
  };
  EXPECT_EQ(StatusOf(ask("any")), 503) << "its policy is not there yet";
  ASSERT_TRUE(server_->adapters().Add("french", "dir").ok());
  ASSERT_TRUE(server_->adapters().Add("dutch", "dir").ok());
  EXPECT_EQ(StatusOf(ask("french")), 200);
  EXPECT_EQ(StatusOf(ask("dutch")), 404);
  // Whatever it names, nothing but its own policy draws the answer.
  std::promise<Status> dropped;
  server_->engine().DropPolicy(PolicyId{1}, [&](Status status) { dropped.set_value(status); });
  ASSERT_TRUE(dropped.get_future().get().ok());
  for (const std::string& name : {std::string("any"), model()}) EXPECT_GE(StatusOf(ask(name)), 400);
  RawClient client(port());
  client.Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header +
              "\r\n");
  const Json models = Json::parse(BodyOf(client.ReadToEnd())).at("data");
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].at("id"), "french");
}

TEST_F(ServedAdaptersTest, AServerWithoutAdaptersHasNoSuchRoutes) {
  Serve("x");
  Load("french", "dir", 404);
}

}  // namespace
}  // namespace tidemill
