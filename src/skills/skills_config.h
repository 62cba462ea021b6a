// The keys of [skills]: a repository of skills that a curator edits and episodes are shown.
#pragma once

#include <cstdint>
#include <string>

#include "config/section.h"

namespace tidemill {

struct SkillsConfig {
  TM_SECTION("skills");
  TM_KEY(bool, on, false,
         {.doc = "Keep a repository of skills and show episodes the ones that fit; see skills.md"});
  TM_KEY(std::string, from, "",
         {.doc = "Folder with NAME/SKILL.md files that a new run begins with, for tasks without a "
                 "scope:NAME tag"});
  TM_KEY(uint32_t, shown, 4, {.doc = "Skills in a prompt, at most", .min = 1, .max = 64});
  TM_KEY(uint32_t, tokens, 1024,
         {.doc = "Tokens of a prompt that skills may take; the least fitting are left out",
          .min = 1,
          .max = 1e6});
  TM_KEY(uint32_t, capacity, 64,
         {.doc = "Skills of one scope, at most; an insert above it is refused",
          .min = 1,
          .max = 4096});
  TM_KEY(uint32_t, body_bytes, 8192,
         {.doc = "Maximum size of a skill without its head", .min = 64, .max = 1 << 20});
  TM_KEY(double, hold_out, 0,
         {.doc = "Share of the episodes of training that are shown no skills, to measure what "
                 "showing them is worth",
          .min = 0,
          .max = 0.9});
  TM_KEY(std::string, curator, "",
         {.doc = "Base address of an OpenAI-compatible API whose model edits the repository after "
                 "each group of training, https://HOST/v1 for example, or a model directory, which "
                 "is served inside the process; empty: nobody edits it"});
  TM_KEY(std::string, curator_model, "", {.doc = "Name of the model at the endpoint"});
  TM_KEY(std::string, curator_key_file, "", {.doc = "File with the endpoint's API key"});
  TM_KEY(std::string, curator_key_env, "",
         {.doc = "Environment variable with the endpoint's API key"});
  TM_KEY(std::string, curator_ca_file, "",
         {.doc = "PEM file with the certificates that the endpoint's must be signed by; empty: the "
                 "system's"});
  TM_KEY(uint32_t, curator_tokens, 2048,
         {.doc = "Maximum length of the curator's answer", .min = 16, .max = 65536});
  TM_KEY(double, curator_temperature, 0.7, {.doc = "Sampling temperature", .min = 0, .max = 2});
  TM_KEY(milliseconds, curator_timeout, milliseconds(60000),
         {.doc = "Time limit of one answer", .min = 10, .max = 3.6e6});
  TM_KEY(uint32_t, curator_edits, 8,
         {.doc = "Operations of one answer, at most; those above it are refused",
          .min = 1,
          .max = 64});
};

}  // namespace tidemill
