// How an agent goes on while its tools run: the keys of [background], and those of [rollout] that
// go with them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace tidemill {

struct BackgroundOptions {
  bool eager = true;
  std::string deliver = "turn";
  std::string on_submit = "cancel";
  std::vector<std::string> allowed;  // built-in tools
  std::vector<std::string> always;   // likewise
  uint32_t jobs = 8;
  uint32_t held_kb = 64;
  std::chrono::milliseconds total{10 * 60 * 1000};
};

void BindBackground(BackgroundOptions& options, Binder& binder);

// kInvalid names the key: a tool that is named twice.
Status CheckBackground(const BackgroundOptions& options, const Binder& binder);

}  // namespace tidemill
