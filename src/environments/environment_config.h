// The keys of an [[environment]]: where episodes in environments of others take place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

struct EnvironmentConfig {
  TM_SECTION("");
  TM_KEY(std::string, name, "", {.doc = "Its name, by which tasks choose it"});
  TM_KEY(std::string, standard, "openenv",
         {.doc = "What it speaks", .choices = {"openenv", "nemo-gym", "verifiers"}});
  TM_KEY(std::string, mode, "",
         {.doc = "What of the standard: nemo-gym has resources, gymnasium and agent, verifiers "
                 "chat and tokens; empty: the first"});
  TM_KEY(std::vector<std::string>, urls, {},
         {.doc = "Servers that run already, http://HOST:PORT (verifiers: tcp://HOST:PORT)"});
  TM_KEY(std::vector<std::string>, command, {},
         {.doc = "Command line of a server that Tidemill starts, watches and replaces; {port} is "
                 "filled in, and {model_url}, {model_key} where its agent asks the model"});
  TM_KEY(uint32_t, servers, 1,
         {.doc = "Maximum number of servers of the command; one is started, and another while "
                 "episodes wait",
          .min = 1,
          .max = 1024});
  TM_KEY(uint32_t, slots, 1,
         {.doc = "Maximum number of episodes in one server at once", .min = 1, .max = 65536});
  TM_KEY(milliseconds, timeout, milliseconds(120'000),
         {.doc = "Longest time until an environment answers", .min = 100, .max = 8.64e7});
  TM_KEY(milliseconds, patience, milliseconds(600'000),
         {.doc = "How long an episode waits for room, or for a server that starts",
          .min = 100,
          .max = 8.64e7});
};

}  // namespace tidemill
