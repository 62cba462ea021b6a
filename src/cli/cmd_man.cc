// tidemill man: a manual page for each command, from what --help says of it.
#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "core/version.h"

namespace tidemill {
namespace {

// Text as troff reads it: no escapes, no requests.
std::string Troff(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool line_begins = i == 0 || text[i - 1] == '\n';
    if (line_begins && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string Entry(const std::string& name, const std::string& text) {
  return ".TP\n.B " + Troff(name) + "\n" + (text.empty() ? "\\&" : Troff(text)) + "\n";
}

// `positional`: what stands without a dash.
std::string Options(const CLI::App& command, bool positional) {
  const CLI::Formatter formatter;
  std::string out;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() != positional || option->get_group().empty()) continue;
    out +=
        Entry(formatter.make_option_name(option, positional) + formatter.make_option_opts(option),
              formatter.make_option_desc(option));
  }
  return out;
}

std::string Joined(const std::string& words, char between) {
  std::string out = words;
  for (char& c : out) c = c == ' ' ? between : c;
  return out;
}

std::string Page(const CLI::App& command, const std::string& words) {
  std::string upper = Joined(words, '-');
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  std::string page = ".TH " + Troff(upper) + " 1 \"\" \"Tidemill " + std::string(Version()) +
                     "\" \"User Commands\"\n.SH NAME\n" + Troff(Joined(words, '-')) + " \\- " +
                     Troff(command.get_description()) + "\n.SH SYNOPSIS\n.B " + Troff(words) +
                     "\n[OPTIONS]";
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = Troff(option->get_name(true));
    page += option->get_required() ? " " + name : " [" + name + "]";
  }
  page += commands.empty() ? "\n" : " COMMAND\n";
  if (const std::string of = Options(command, true); !of.empty()) page += ".SH ARGUMENTS\n" + of;
  if (const std::string of = Options(command, false); !of.empty()) page += ".SH OPTIONS\n" + of;
  if (!commands.empty()) page += ".SH COMMANDS\n";
  for (const CLI::App* one : commands) page += Entry(one->get_name(), one->get_description());
  if (!commands.empty()) {
    page += "\nEach has a page of its own: " + Troff(Joined(words, '-')) + "\\-COMMAND(1).\n";
  }
  if (!command.get_footer().empty()) page += ".SH NOTES\n" + Troff(command.get_footer()) + "\n";
  return page;
}

Status WritePages(const CLI::App& command, const std::string& words, const std::string& folder) {
  const std::string path = folder + "/" + Joined(words, '-') + ".1";
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << Page(command, words);
  file.close();
  if (!file.good()) return Unavailable(path + ": cannot write it");
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) {
    TM_RETURN_IF_ERROR(WritePages(*one, words + " " + one->get_name(), folder));
  }
  return Ok();
}

}  // namespace

void AddManCommand(CLI::App& app, Exit& exit) {
  CLI::App* man = app.add_subcommand("man", "Write a manual page for each command");
  const auto folder = std::make_shared<std::string>();
  man->add_option("folder", *folder, "Folder to write to; it is made")->required();
  man->callback([folder, &app, &exit] {
    std::error_code error;
    std::filesystem::create_directories(*folder, error);
    if (error) {
      exit.code = Fail(Unavailable(*folder + ": " + error.message()));
      return;
    }
    if (const Status status = WritePages(app, app.get_name(), *folder); !status.ok()) {
      exit.code = Fail(status);
    }
  });
}

}  // namespace tidemill
