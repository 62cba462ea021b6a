// What forward_backward and forward ask for, in both forms that clients send, and the answer.
//
//   body (protobuf, or JSON of older clients) -> ForwardBackwardRequest -> TrainAsk
//   TokenLossResult -> ForwardBackwardOutput -> protobuf, or JSON
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "learner/token_loss.h"
#include "proto/tinker.pb.h"

namespace tidemill {

struct TrainAsk {
  TokenLoss loss;
  bool gradients = true;
  std::vector<TokenRow> rows;
};

inline constexpr size_t kDatumsMax = 65536;         // of one request
inline constexpr int64_t kTargetsAPlaceMax = 1024;  // K of [N, K] targets

// kInvalid: no such message.
Result<tinker::ForwardBackwardRequest> ParseTrainProto(std::string_view bytes);
// The JSON of clients up to 0.24. kInvalid names the field.
Result<tinker::ForwardBackwardRequest> ParseTrainJson(std::string_view text, bool forward_only);

// kInvalid names what is not supported or does not fit, with the datum's number: the loss, a key of
// its config, an input, a type or shape, images and audio.
Result<TrainAsk> ReadTrainAsk(const tinker::ForwardBackwardRequest& request);

tinker::ForwardBackwardOutput TrainOutput(const TrainAsk& ask, const TokenLossResult& result);
// The same for clients that ask for JSON. kCorrupt: no such message.
Result<std::string> TrainOutputJson(std::string_view output);

}  // namespace tidemill
