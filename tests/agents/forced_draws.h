// For tests: a real engine whose draws are given. The model computes every step as always; in place
// of the token it would draw comes the one the script has for the tokens in front of it, with the
// log-probabilities the model gives that token. So the ids count as sampled, and what the engine
// reports of them can be trained on.
//
// A program is built with it by linking forced_program.cc (target tidemill_forced: all of
// `tidemill`). Without TIDEMILL_FORCED in its environment it draws as the shipped program does.
//   TIDEMILL_FORCED=DIR               the model directory, for its tokenizer; ChatML with
//                                     <|im_start|> and <|im_end|>
//   TIDEMILL_FORCED_COMMAND=COMMAND   what an agent is told to run (scripted_answers.h)
#pragma once

#include <memory>

#include "engine/decode_backend.h"
#include "testing/scripted_draws.h"

namespace tidemill {

// `inner` computes. Draws are at the sampling's temperature (0: as 1); truncation does not change
// the log-probabilities, since the given token may be one that was cut off.
std::unique_ptr<DecodeBackend> NewForcedBackend(std::unique_ptr<DecodeBackend> inner,
                                                ScriptedDraws draws);

}  // namespace tidemill
