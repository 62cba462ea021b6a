// Bodies of the Tinker API: both forms of forward_backward, samples, and the JSON of the other
// operations. The first byte says which.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/status.h"
#include "tinker/op_ask.h"
#include "tinker/sample_ask.h"
#include "tinker/train_ask.h"
#include "tinker/wire_json_fields.h"

namespace {

// What was read passes the checks of the server, or is refused; it never breaks them.
void Check(const tidemill::Result<tidemill::tinker::ForwardBackwardRequest>& request) {
  if (!request.ok()) return;
  const auto ask = tidemill::ReadTrainAsk(*request);
  if (!ask.ok()) return;
  for (const tidemill::TokenRow& row : ask->rows) {
    (void)tidemill::CheckTokenRow(row, ask->loss.kind, 1000, 4096);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      Check(tidemill::ParseTrainProto(body));
      break;
    case 1:
      Check(tidemill::ParseTrainJson(body, size % 2 == 0));
      break;
    case 2:
      (void)tidemill::ParseSampleAsk(body);
      (void)tidemill::SampleAnswerJson(body);
      (void)tidemill::TrainOutputJson(body);
      break;
    default:
      if (const auto json = tidemill::ParseFields(body); json.ok()) {
        (void)tidemill::ReadStepAsk(*json);
        (void)tidemill::ReadSaveAsk(*json, true);
        (void)tidemill::ReadOpPlace(*json);
      }
      (void)tidemill::ParseCheckpointPath(body);
  }
  return 0;
}
