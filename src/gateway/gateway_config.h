// The keys of [gateway]: how the policy is served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/section.h"

namespace tidemill {

struct GatewayConfig {
  TM_SECTION("gateway");
  TM_KEY(uint32_t, port, 0,
         {.doc = "Port on which the policy is served to agents and clients; 0: not served",
          .max = 65535});
  TM_KEY(std::string, host, "127.0.0.1",
         {.doc = "Listen address; outside loopback keys are required"});
  TM_KEY(std::string, keys, "",
         {.doc = "File of API keys; see tidemill serve --new-key. Empty: everybody on loopback"});
  TM_KEY(double, share, 0.5,
         {.doc = "Share of the engine for live requests while training needs it too",
          .min = 0.01,
          .max = 0.99});
  TM_KEY(bool, strict_model, false,
         {.doc = "Refuse requests that name another model than the one served"});
  TM_KEY(
      std::string, tool_format, "auto",
      {.doc =
           "How the model writes tool calls, in training too; auto: as its chat template implies, "
           "or hermes with a general description where the template shows no tools",
       .choices = {"auto", "hermes", "qwen3_coder", "llama3_json", "pythonic", "none"}});
  TM_KEY(uint32_t, max_requests, 2048,
         {.doc = "Maximum number of requests waiting or running; more are refused with 429",
          .min = 1,
          .max = 1'000'000});
  TM_KEY(uint32_t, max_running, 1024,
         {.doc = "Maximum number of answers given to the engine at once; more requests wait",
          .min = 1,
          .max = 65536});
  TM_KEY(uint32_t, max_answer_tokens, 0,
         {.doc = "Maximum length of an answer in tokens; 0: what fits into the context"});
  TM_KEY(uint32_t, body_mb, 32,
         {.doc = "Maximum size of a request in megabytes", .min = 1, .max = 1024});
  TM_KEY(milliseconds, heartbeat, milliseconds(15000),
         {.doc = "Interval of the events that keep an idle stream open", .min = 100});
  TM_KEY(std::string, access_log, "",
         {.doc = "File for one JSON line per request; -: standard error; empty: none"});
  TM_KEY(
      std::vector<std::string>, cors, {},
      {.doc = "Origins whose pages may ask from a browser, as https://chat.example.org; *: all"});
  TM_KEY(std::string, unknown_fields, "ignore",
         {.doc = "What becomes of fields of a request that nobody knows; ignore: a header of the "
                 "answer names them; refuse: a 400",
          .choices = {"ignore", "refuse"}});
};

}  // namespace tidemill
