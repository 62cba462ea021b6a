// Attacks by clients and templates: the gateway refuses them by name and goes on. Smuggling and
// slow clients are also in http/http_server_test.cc and http/http_reply_test.cc.
#include <fstream>

#include "testing/gateway_fixture.h"

namespace tidemill {
namespace {

using GatewayHostile = GatewayTest;

TEST_F(GatewayHostile, HostileBodiesAreRefusedInTheShapeOfTheApi) {
  Serve("x");
  const std::string deep = R"({"model":"m","messages":)" + std::string(100'000, '[');
  const std::string invalid = "{\"model\":\"\xff\xfe\",\"messages\":[]}";
  const std::string twice = R"({"model":"m","model":"n","messages":[]})";
  for (const std::string& body : {deep, invalid, twice, std::string("{"), std::string()}) {
    for (const char* path : {"/v1/chat/completions", "/v1/responses", "/v1/messages"}) {
      const std::string answer = PostRaw(path, body);
      EXPECT_EQ(StatusOf(answer), 400) << path << " " << body.substr(0, 40);
      EXPECT_TRUE(Json::parse(BodyOf(answer))["error"].contains("message"));
    }
  }
  const std::string large = PostRaw("/v1/messages", std::string((size_t{32} << 20) + 1, ' '));
  EXPECT_EQ(StatusOf(large), 413);
  RawClient headers(port());
  headers.Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(64 * 1024, 'h') +
               "\r\n\r\n");
  EXPECT_EQ(StatusOf(headers.ReadToEnd()), 431);
  RawClient smuggler(port());
  smuggler.Send(
      "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(StatusOf(smuggler.ReadToEnd()), 400);
  RawClient rebound(port());
  rebound.Send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(StatusOf(rebound.ReadToEnd()), 403);
}

TEST_F(GatewayHostile, AnEnormousSchemaIsRefusedByTheLimitItBreaks) {
  Serve("x");
  Json body = WithTool(Chat("hi"));
  body["tools"][0]["function"]["description"] = std::string(1 << 20, 'd');
  Json error = Ask("/v1/chat/completions", body, 400);
  EXPECT_EQ(error["error"]["code"], "context_length_exceeded") << error;
  // 10 MB of properties.
  Json& properties = body["tools"][0]["function"]["parameters"]["properties"];
  for (int i = 0; i < 100'000; ++i) {
    properties["property" + std::to_string(i)] = {{"type", "string"},
                                                  {"description", std::string(50, 'p')}};
  }
  ASSERT_GT(body.dump().size(), size_t{10} << 20);
  error = Ask("/v1/chat/completions", body, 400);
  EXPECT_NE(error["error"]["message"].get<std::string>().find("4096 tokens"), std::string::npos)
      << error;
  // More values than are read.
  const std::string wide = R"({"model":"m","messages":[],"tools":[)" + std::string(4'200'000, '1');
  std::string many = R"({"model":"m","messages":[)";
  for (int i = 0; i < 2'100'000; ++i) many += "1,";
  EXPECT_NE(BodyOf(PostRaw("/v1/chat/completions", many + "1]}")).find("more than 2000000 values"),
            std::string::npos);
  EXPECT_EQ(StatusOf(PostRaw("/v1/chat/completions", wide)), 400);
  EXPECT_EQ(Ask("/v1/chat/completions", Chat("hi"))["choices"][0]["message"]["content"], "x");
}

TEST_F(GatewayHostile, WhatIsMuchTooLongIsNotReadToItsEnd) {
  Serve("x");
  const auto message = [](const Json& error) {
    return error["error"]["message"].get<std::string>();
  };
  const std::string huge(size_t{1} << 20, 'a');
  Json error = Ask("/v1/chat/completions", Chat(huge), 400);
  EXPECT_EQ(error["error"]["code"], "context_length_exceeded") << error;
  EXPECT_NE(message(error).find("at least"), std::string::npos) << error;
  error = Ask("/v1/completions", {{"model", "m"}, {"prompt", {"short", huge, huge}}}, 400);
  EXPECT_NE(message(error).find("at least"), std::string::npos) << error;
  Json counted = Chat(huge);
  error = Ask("/v1/messages/count_tokens", counted, 400);
  EXPECT_EQ(message(error).rfind("prompt is too long: ", 0), 0u) << error;
  // What could be cut to fit is counted to the token.
  error = Ask("/v1/chat/completions", Chat(std::string(5000, 'a')), 400);
  EXPECT_EQ(message(error).find("at least"), std::string::npos) << error;
  const Json count = Ask("/v1/messages/count_tokens", Chat(std::string(5000, 'a')));
  EXPECT_GT(count["input_tokens"], 5000);
  EXPECT_NE(message(error).find(std::to_string(count["input_tokens"].get<int>()) + " tokens"),
            std::string::npos)
      << error << count;
}

TEST_F(GatewayHostile, AnswersOfOneRequestAreBounded) {
  Serve("x");
  const Json error =
      Ask("/v1/completions",
          {{"model", "m"}, {"prompt", std::vector<std::string>(128, "a")}, {"n", 16}}, 400);
  EXPECT_NE(error["error"]["message"].get<std::string>().find("2048 answers"), std::string::npos)
      << error;
}

TEST_F(GatewayHostile, ATemplateThatNeverEndsIsAnErrorAndOthersAreServed) {
  std::ofstream(dir_ / "chat_template.jinja")
      << "{% if messages[0].content == 'loop' %}{% for a in range(100000) %}{% for b in "
         "range(100000) %}{{ a }}{% endfor %}{% endfor %}{% endif %}"
         "{% if messages[0].content == 'grow' %}{% set ns = namespace(t='x') %}{% for i in "
         "range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}{% endif %}"
         "{{ '<|im_start|>assistant\n' }}";
  Serve("fine");
  for (const char* bomb : {"loop", "grow"}) {
    const Json error = Ask("/v1/chat/completions", Chat(bomb), 400);
    EXPECT_NE(error["error"]["message"].get<std::string>().find("chat_template"), std::string::npos)
        << error;
  }
  EXPECT_EQ(Ask("/v1/chat/completions", Chat("hi"))["choices"][0]["message"]["content"], "fine");
}

}  // namespace
}  // namespace tidemill
