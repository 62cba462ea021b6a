// For tests: asks a scripted gateway over HTTP.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/http_client.h"
#include "testing/scripted_server.h"
#include "testing/test_kit.h"

namespace tidemill {

using Json = nlohmann::json;

class GatewayTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(WriteByteModel(dir_.path(), 4096).ok()); }

  void Serve(AnswerScript script, ScriptedOptions options = {}, TurnRecorder* recorder = nullptr) {
    server_ = std::make_unique<ScriptedServer>(dir_.path(), std::move(options), std::move(script),
                                               recorder);
  }
  void Serve(std::string answer, ScriptedOptions options = {}) {
    Serve([answer](const std::string&) { return answer; }, std::move(options));
  }
  uint16_t port() const { return server_->gateway().port(); }

  static std::string PostText(const std::string& path, const std::string& body,
                              const std::string& headers = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::string PostRaw(const std::string& path, const std::string& body,
                      const std::string& headers = "") const {
    RawClient client(port());
    client.Send(PostText(path, body, headers));
    return client.ReadToEnd();
  }
  Json Ask(const std::string& path, const Json& body, int status = 200,
           const std::string& headers = "") const {
    const std::string answer = PostRaw(path, body.dump(), headers);
    EXPECT_EQ(StatusOf(answer), status) << answer;
    return Json::parse(BodyOf(answer), nullptr, false);
  }
  static Json Chat(const std::string& text) {
    return {{"model", "any"}, {"messages", {{{"role", "user"}, {"content", text}}}}};
  }
  static Json WithTool(Json body) {
    body["tools"] = {
        {{"type", "function"},
         {"function",
          {{"name", "run"},
           {"description", "Runs a command"},
           {"parameters", {{"type", "object"}, {"properties", {{"c", {{"type", "string"}}}}}}}}}}};
    return body;
  }

  // The data of the events of a stream, chunks taken apart.
  static std::vector<std::string> Events(const std::string& answer) {
    std::string body = BodyOf(answer);
    std::string text;
    while (!body.empty()) {
      const size_t end = body.find("\r\n");
      const size_t size = end == std::string::npos ? 0 : std::stoul(body, nullptr, 16);
      if (size == 0) break;
      text += body.substr(end + 2, size);
      body.erase(0, std::min(body.size(), end + 2 + size + 2));
    }
    std::vector<std::string> events;
    for (size_t at = text.find("data: "); at != std::string::npos; at = text.find("data: ", at)) {
      const size_t end = text.find('\n', at);
      events.push_back(text.substr(at + 6, end - at - 6));
      at = end;
    }
    return events;
  }

  TemporaryDirectory dir_;
  std::unique_ptr<ScriptedServer> server_;
};

}  // namespace tidemill
