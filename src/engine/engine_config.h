// The keys of [engine].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

struct EngineConfig {
  TM_SECTION("engine");
  TM_KEY(
      uint32_t, versions, 1,
      {.doc = "Number of weight versions held at once, so that a request can pin one; each needs "
              "the memory of a whole set; 1 on a GPU",
       .min = 1,
       .max = 64});
  TM_KEY(
      bool, exact, false,
      {.doc = "On a CPU, engine and learner compute log-probabilities that are equal to the last "
              "bit, so that the ratio of on-policy tokens is 1; no effect with adapters, experts, "
              "truncated sampling, engine.weights = int8, servers, or on a GPU (engine.md)"});
  TM_KEY(
      std::string, weights, "float32",
      {.doc = "Matrices of an engine on a CPU: float32; int8: whole numbers with a scale for each "
              "row, a quarter of the memory and faster for few sequences (engine.md)",
       .choices = {"float32", "int8"}});
  TM_KEY(std::string, backend, "own",
         {.doc = "What generates: own, in this process; vllm, sglang: servers; see backends.md",
          .choices = {"own", "vllm", "sglang"}});
  TM_KEY(std::vector<std::string>, urls, {},
         {.doc = "Addresses of servers that run already, such as \"http://10.0.0.7:8000\"; their "
                 "control routes must be reachable from here and from nobody else"});
  TM_KEY(std::vector<std::string>, command, {},
         {.doc = "Command that starts a server; {port} stands for its port on loopback, {server} "
                 "for its number, {model} for model.path"});
  TM_KEY(std::string, folder, "",
         {.doc = "Folder where versions are written for the servers, which must be able to read "
                 "it; empty: in the run's folder"});
  TM_KEY(uint32_t, servers, 1,
         {.doc = "How many servers engine.command starts", .min = 1, .max = 64});
  TM_KEY(uint32_t, server_turns, 256,
         {.doc = "Turns under way at one server at once; more wait here", .min = 1, .max = 65536});
  TM_KEY(milliseconds, server_start, milliseconds(600000),
         {.doc = "How long to wait for the first server that serves", .min = 1000, .max = 8.64e7});
  TM_KEY(double, canary_tolerance, 0.0,
         {.doc = "Mean difference between a server's log-probabilities of a fixed text and the "
                 "trainer's up to which a version serves; 0: 0.0001 in float32, 0.05 in bfloat16",
          .min = 0,
          .max = 1});

  bool own() const { return backend == "own"; }
};

}  // namespace tidemill
