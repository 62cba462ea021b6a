#include "cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Tidemill trains coding agents by reinforcement learning while nothing waits.", "tidemill"};
  app.require_subcommand(1);
  tidemill::Exit exit;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit.code;
}
