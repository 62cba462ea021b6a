// The keys of [tools], and of a [[tools.command]] table: a tool of one's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

// A tool of one's own. A limit of 0: the one of [tools].
struct CommandConfig {
  TM_SECTION("");
  TM_KEY(std::string, name, "", {.doc = "Tool name, as the model calls it", .required = true});
  TM_KEY(std::string, description, "", {.doc = "Tool description for the model"});
  TM_KEY(std::vector<std::string>, command, {},
         {.doc = "Command line; {x} is replaced by the call's argument x, always as one word",
          .min = 1,
          .required = true});
  TM_KEY(bool, stays, false,
         {.doc = "The command runs outside the box, is started once and answers one JSON object "
                 "per line, matched by \"id\"; see tools.md"});
  TM_KEY(std::string, parameters, "",
         {.doc = "stays: JSON schema of the arguments; empty: it takes none"});
  TM_KEY(uint32_t, slots, 2,
         {.doc = "stays: number of calls that the command has at once", .min = 1, .max = 1024});
  TM_KEY(std::vector<std::string>, files, {},
         {.doc = "Workspace files that enter the box; empty: all"});
  TM_KEY(std::string, parser, "text",
         {.doc = "Format of the tool's output", .choices = {"text", "diagnostics", "tests"}});
  TM_KEY(bool, changes, true, {.doc = "Keep the files the tool wrote as the new workspace"});
  TM_KEY(
      std::string, background, "never",
      {.doc = "Whether its calls go on in the background: never, where the agent asks for it, or "
              "always",
       .choices = {"never", "allowed", "always"}});
  TM_KEY(bool, background_files, false,
         {.doc = "Files that a background call writes: keep them where nothing it touches changed "
                 "meanwhile; false: drop them"});
  TM_KEY(uint32_t, wall_ms, 0, {.doc = "0: inherit from [tools]"});
  TM_KEY(uint32_t, cpu_ms, 0, {.doc = "0: inherit from [tools]"});
  TM_KEY(uint32_t, memory_mb, 0, {.doc = "0: inherit from [tools]"});
  TM_KEY(uint32_t, processes, 0, {.doc = "0: inherit from [tools]"});
  TM_KEY(uint32_t, output_kb, 0, {.doc = "0: inherit from [tools]"});
  TM_KEY(uint32_t, disk_mb, 0, {.doc = "0: inherit from [tools]"});
};

// A server of the Model Context Protocol: its tools are tools of the agent. A limit of 0: the one
// of [tools].
struct McpConfig {
  TM_SECTION("");
  TM_KEY(std::string, name, "", {.doc = "Name of the server, for people", .required = true});
  TM_KEY(std::string, url, "",
         {.doc = "Address of a server that runs elsewhere: http://HOST:PORT/PATH, or https"});
  TM_KEY(std::string, key_file, "", {.doc = "File with the bearer token that url asks for"});
  TM_KEY(std::vector<std::string>, command, {},
         {.doc = "Command line of a server that talks by its standard input and output; it runs in "
                 "a box without a network"});
  TM_KEY(std::vector<std::string>, mounts, {},
         {.doc = "command: files and folders of this machine that it may read and execute, FROM or "
                 "FROM:TO"});
  TM_KEY(std::vector<std::string>, environment, {},
         {.doc = "command: variables of the program, NAME=value"});
  TM_KEY(std::vector<std::string>, tools, {},
         {.doc = "Which of the server's tools are offered; empty: all"});
  TM_KEY(std::string, prefix, "", {.doc = "What stands before the names of its tools"});
  TM_KEY(uint32_t, slots, 2,
         {.doc = "Calls at once: connections, or programs in boxes", .min = 1, .max = 1024});
  TM_KEY(milliseconds, start, milliseconds(30000),
         {.doc = "How long it may take to start, and to list its tools", .min = 10, .max = 3.6e6});
  TM_KEY(uint32_t, wall_ms, 0, {.doc = "Time of a call; 0: inherit from [tools]"});
  TM_KEY(uint32_t, memory_mb, 0, {.doc = "command: 0: inherit from [tools]"});
  TM_KEY(uint32_t, processes, 0, {.doc = "command: 0: inherit from [tools]"});
  TM_KEY(uint32_t, disk_mb, 0, {.doc = "command: 0: inherit from [tools]"});
  TM_KEY(std::string, listed, "",
         {.doc = "The server's tools as its answer to tools/list names them, a JSON object; empty: "
                 "it is asked at the start"});
};

struct ToolConfig {
  TM_SECTION("tools");
  TM_KEY(uint32_t, slots, 0,
         {.doc = "Number of tool calls that run at once; 0: derived from the number of cores",
          .max = 4096});
  TM_KEY(uint32_t, cache, 4096,
         {.doc = "Number of cached tool results; 0: no cache", .max = 1 << 24});
  TM_KEY(milliseconds, wait, milliseconds(0),
         {.doc = "Artificial latency of tool calls, median, to test slow tools; 0: none",
          .max = 6e5});
  TM_KEY(milliseconds, wait_tail, milliseconds(0),
         {.doc = "Artificial latency of tool calls, 99.9th percentile and maximum", .max = 6e5});
  TM_KEY(uint32_t, wall_ms, 10000, {.doc = "Wall-clock limit of a command", .min = 1});
  TM_KEY(uint32_t, cpu_ms, 5000, {.doc = "CPU time limit of a command", .min = 1});
  TM_KEY(uint32_t, memory_mb, 512, {.doc = "Memory limit of a box", .min = 1});
  TM_KEY(uint32_t, processes, 64,
         {.doc = "Maximum number of processes and threads in a box", .min = 1});
  TM_KEY(uint32_t, output_kb, 256, {.doc = "Maximum output of a command", .min = 1});
  TM_KEY(uint32_t, disk_mb, 64, {.doc = "Size of the box's writable file system", .min = 1});
  TM_KEY(uint32_t, shells, 256,
         {.doc = "Maximum number of boxes of the tool bash, one per episode",
          .min = 1,
          .max = 4096});
  TM_KEY(std::string, roots, "",
         {.doc = "Folder of unpacked root file systems; empty: ~/.cache/tidemill/roots, for root "
                 "/var/cache/tidemill/roots"});
  TM_KEY(bool, own_user, false,
         {.doc = "Where the executor is root and the machine has no users for boxes (a container "
                 "without them), run boxes as the executor's own user; false: refuse to start"});
  TM_KEY(bool, interpret, false,
         {.doc = "Run the visible tests of the built-in family in an interpreter where that gives "
                 "what a box gives; see verifiers.md"});
  TM_TABLES(CommandConfig, command,
            {.doc = "Custom tools, one [[tools.command]] table each; see tools.md", .max = 64});
  TM_TABLES(McpConfig, mcp,
            {.doc = "Servers of the Model Context Protocol whose tools agents have, one "
                    "[[tools.mcp]] table each; see tools.md",
             .max = 16});
};

}  // namespace tidemill
