// The keys of [memory]: cases of earlier episodes in the prompts of later ones.
#pragma once

#include <cstdint>
#include <string>

#include "config/section.h"

namespace tidemill {

struct MemoryConfig {
  TM_SECTION("memory");
  TM_KEY(bool, on, false,
         {.doc = "Keep episodes as cases and show them to later episodes; see memory.md"});
  TM_KEY(bool, only, false,
         {.doc = "Learn by memory alone: the weights stay as they are. Needs memory.on"});
  TM_KEY(std::string, retrieval, "learned",
         {.doc = "Which cases are shown: those with the most telling words in common, those whose "
                 "prompts the policy reads most alike, of those with words in common the newest, "
                 "any, or those that were worth most",
          .choices = {"lexical", "hidden", "newest", "random", "learned"}});
  TM_KEY(uint32_t, key_layers, 0,
         {.doc = "With memory.retrieval = \"hidden\": layers of the policy that a prompt is run "
                 "through, those of the weights the run began with; 0: half",
          .max = 1024});
  TM_KEY(uint32_t, cases, 8, {.doc = "Cases in a prompt, at most", .min = 1, .max = 64});
  TM_KEY(uint32_t, case_tokens, 512,
         {.doc = "Tokens of a prompt that cases may take; the least useful are left out",
          .min = 1,
          .max = 1e6});
  TM_KEY(uint32_t, capacity, 100'000,
         {.doc = "Cases kept; above it the least useful is forgotten, of equal ones the oldest",
          .min = 1,
          .max = 1e6});
  TM_KEY(bool, failures, true, {.doc = "Keep failed answers as cases too"});
  TM_KEY(std::string, explore, "thompson",
         {.doc = "How the learned retrieval tries cases it knows little about",
          .choices = {"thompson", "epsilon"}});
  TM_KEY(
      double, epsilon, 0.1,
      {.doc = "With memory.explore = \"epsilon\": share of episodes shown similar cases at random",
       .min = 0,
       .max = 1});
};

}  // namespace tidemill
