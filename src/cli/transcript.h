// An episode as people read it: what was asked, what the model wrote, what the tools said, what it
// earned.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "store/run_reader.h"

namespace tidemill {

using TextOfIds = std::function<std::string(std::span<const int32_t>)>;

std::string TranscriptText(const EpisodeDetail& episode, const TextOfIds& text_of);

}  // namespace tidemill
