#include "mcp/json_rpc.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(JsonRpc, RequestsNotificationsAndAnswersAreToldApart) {
  RpcParsed request = ParseRpc(R"({"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}})");
  ASSERT_TRUE(request.status.ok()) << request.status.ToString();
  EXPECT_EQ(request.message.kind, RpcMessage::Kind::kRequest);
  EXPECT_EQ(request.message.id, "a");
  EXPECT_EQ(request.message.params["x"], 1);
  const RpcParsed notification = ParseRpc(R"({"jsonrpc":"2.0","method":"n"})");
  ASSERT_TRUE(notification.status.ok());
  EXPECT_EQ(notification.message.kind, RpcMessage::Kind::kNotification);
  EXPECT_TRUE(notification.message.params.is_object());
  const RpcParsed result = ParseRpc(R"({"jsonrpc":"2.0","id":7,"result":{"y":2}})");
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.message.kind, RpcMessage::Kind::kResult);
  EXPECT_EQ(result.message.result["y"], 2);
  const RpcParsed error =
      ParseRpc(R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}})");
  ASSERT_TRUE(error.status.ok());
  EXPECT_EQ(error.message.kind, RpcMessage::Kind::kError);
  EXPECT_EQ(error.message.error.code, kRpcParseError);
}

TEST(JsonRpc, WhatIsNoMessageIsRefusedWithItsCodeAndTheIdWhereItCouldBeRead) {
  const struct {
    const char* text;
    int64_t code;
    const char* says;
  } kCases[] = {
      {"{", kRpcParseError, "no JSON"},
      {"[]", kRpcInvalidRequest, "one object"},
      {R"({"id":1,"method":"m"})", kRpcInvalidRequest, "jsonrpc"},
      {R"({"jsonrpc":"2.0","id":1.5,"method":"m"})", kRpcInvalidRequest, "id"},
      {R"({"jsonrpc":"2.0","id":null,"method":"m"})", kRpcInvalidRequest, "id"},
      {R"({"jsonrpc":"2.0","id":1,"method":2})", kRpcInvalidRequest, "method"},
      {R"({"jsonrpc":"2.0","id":1,"method":"m","params":[1]})", kRpcInvalidParams, "params"},
      {R"({"jsonrpc":"2.0","id":1})", kRpcInvalidRequest, "neither"},
      {R"({"jsonrpc":"2.0","result":1})", kRpcInvalidRequest, "neither"},
      {R"({"jsonrpc":"2.0","id":1,"error":"no"})", kRpcInvalidRequest, "error"},
  };
  for (const auto& one : kCases) {
    const RpcParsed parsed = ParseRpc(one.text);
    ASSERT_FALSE(parsed.status.ok()) << one.text;
    EXPECT_EQ(parsed.code, one.code) << one.text;
    EXPECT_NE(parsed.status.message().find(one.says), std::string::npos) << parsed.status.message();
  }
  EXPECT_EQ(ParseRpc(R"({"jsonrpc":"2.0","id":5,"method":2})").message.id, 5);
}

TEST(JsonRpc, SizeAndDepthAreBounded) {
  const std::string deep = R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"a":)" +
                           std::string(100, '[') + std::string(100, ']') + "}}";
  EXPECT_NE(ParseRpc(deep).status.message().find("deeper"), std::string::npos);
  EXPECT_TRUE(ParseRpc(deep, {.depth = 200}).status.ok());
  EXPECT_NE(ParseRpc(deep, {.bytes = 20, .depth = 200}).status.message().find("bytes"),
            std::string::npos);
}

TEST(JsonRpc, WhatIsWrittenIsReadBack) {
  for (const RpcMessage& message :
       {RpcResult("x", {{"a", 1}}), RpcFailure(3, kRpcMethodNotFound, "no \"m\"")}) {
    const RpcParsed parsed = ParseRpc(DumpRpc(message));
    ASSERT_TRUE(parsed.status.ok());
    EXPECT_EQ(parsed.message.kind, message.kind);
    EXPECT_EQ(parsed.message.id, message.id);
    EXPECT_EQ(parsed.message.result, message.result);
    EXPECT_EQ(parsed.message.error.message, message.error.message);
  }
  RpcMessage progress{.kind = RpcMessage::Kind::kNotification, .method = "notifications/progress"};
  progress.params = {{"progress", 1}};
  EXPECT_EQ(DumpRpc(progress),
            R"({"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}})");
  EXPECT_NE(DumpRpc(RpcResult(1, std::string("\xff"))).find("\xEF\xBF\xBD"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
