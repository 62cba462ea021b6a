// scripted_gateway FOLDER [COMMAND [ACCESS_LOG]]: the real gateway and engine with scripted draws,
// for real agents and clients. Makes a model in FOLDER, prints the address and serves until its
// standard input ends.
#include <cstdio>
#include <string>

#include "testing/scripted_server.h"
#include "tests/agents/scripted_answers.h"

namespace tidemill {
namespace {

int ServeScripted(const std::string& folder, const std::string& command, const std::string& log) {
  Status made = MakeDirectories(folder + "/scripted-1");
  constexpr int32_t kContext = 600'000;  // a token is a byte
  if (made.ok()) made = WriteByteModel(folder + "/scripted-1", kContext);
  if (made.ok()) {
    made = WriteFileAtomically(folder + "/scripted-1/chat_template.jinja", ScriptedTemplate());
  }
  if (!made.ok()) {
    std::fprintf(stderr, "scripted_gateway: %s\n", made.message().c_str());
    return 1;
  }
  ScriptedOptions options;
  options.context = kContext;
  options.pages = 4 * kContext / 16;
  options.pace = std::chrono::microseconds(100);
  options.gateway.access_log = log;
  options.gateway.keys = ApiKeys::Open({.concurrency = 16});
  ScriptedServer server(
      folder + "/scripted-1", std::move(options),
      [command](const std::string& prompt) { return ScriptedAnswer(prompt, command); });
  std::printf("%s\n", server.gateway().url().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace
}  // namespace tidemill

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "scripted_gateway FOLDER [COMMAND [ACCESS_LOG]]\n");
    return 2;
  }
  return tidemill::ServeScripted(argv[1], argc > 2 ? argv[2] : "true", argc > 3 ? argv[3] : "");
}
