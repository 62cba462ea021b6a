// tidemill chat: a conversation in the terminal with a model directory or a server.
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/terminal_chat.h"
#include "run/run_config.h"
#include "run/served_model.h"
#include "run/torch/policy_server.h"

namespace tidemill {
namespace {

struct ChatWords {
  std::string target, key, model, system;
  std::optional<double> temperature;
  std::optional<int> max_tokens;
  std::vector<std::string> sets;
};

bool IsUrl(const std::string& target) {
  return target.starts_with("http://") || target.starts_with("https://");
}

// The model in this process, behind an address that nobody else is told.
Result<std::unique_ptr<PolicyServer>> ServeHere(const ChatWords& words) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  TM_RETURN_IF_ERROR(binder.Load("", words.sets));
  TM_ASSIGN_OR_RETURN(const ModelToServe model, FindModelToServe(words.target, ""));
  config.model.path = model.path;
  if (!model.adapter.empty()) config.model.adapter = model.adapter;
  config.gateway.host = "127.0.0.1";
  config.gateway.port = 0;
  config.gateway.keys.clear();
  config.gateway.access_log.clear();
  return PolicyServer::Start(config, {});
}

int Chat(const ChatWords& words) {
  std::unique_ptr<PolicyServer> server;
  std::string url = words.target;
  if (!IsUrl(url)) {
    auto started = ServeHere(words);
    if (!started.ok()) return Fail(started.status());
    server = std::move(*started);
    for (const std::string& warning : server->warnings()) {
      std::fprintf(stderr, "tidemill: %s\n", warning.c_str());
    }
    url = server->url();
  }
  const Result<HttpUrl> parsed = ParseHttpUrl(url);
  if (!parsed.ok()) return Wrong(parsed.status());
  if (parsed->tls) return Wrong(Invalid(url + ": only http:// is supported"));
  TerminalChat talk({.server = *parsed,
                     .key = words.key,
                     .model = words.model,
                     .system = words.system,
                     .temperature = words.temperature,
                     .max_tokens = words.max_tokens},
                    stdout);
  if (const Status begun = talk.Begin(); !begun.ok()) return Fail(begun);
  std::fprintf(stderr, "%s; /help shows the commands, Ctrl-D ends\n", talk.model().c_str());
  std::string line;
  while (true) {
    std::fputs("> ", stderr);
    if (!std::getline(std::cin, line) || !talk.Take(line)) break;
  }
  std::fputs("\n", stderr);
  return 0;
}

}  // namespace

void AddChatCommand(CLI::App& app, Exit& exit) {
  CLI::App* chat = app.add_subcommand(
      "chat", "Talk to a model directory, a GGUF file, a run, or a server; see docs/gateway.md");
  const auto words = std::make_shared<ChatWords>();  // shared with the callback, which runs later
  chat->add_option("MODEL", words->target, "Model directory, .gguf file, run, or http://HOST:PORT")
      ->required();
  chat->add_option("--system", words->system, "System message");
  chat->add_option("--model", words->model, "Name of the model; default: the server's first");
  chat->add_option("--api-key", words->key, "API key of the server")->envname("TIDEMILL_API_KEY");
  chat->add_option("--temperature", words->temperature, "Sampling temperature");
  chat->add_option("--max-tokens", words->max_tokens, "Maximum length of an answer in tokens");
  AddSetOption(*chat, words->sets, "Set a config key, a.b=c; may be repeated");
  chat->callback([words, &exit] { exit.code = Chat(*words); });
}

}  // namespace tidemill
