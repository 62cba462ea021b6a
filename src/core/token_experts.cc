#include "core/token_experts.h"

#include <algorithm>

#include "proto/tidemill.pb.h"

namespace tidemill {

void TokenExperts::Append(const TokenExperts& more) {
  if (more.empty()) return;
  if (empty()) {
    *this = more;
    return;
  }
  TM_CHECK(choices == more.choices && first + rows() == more.first, "rows of one model, in order");
  chosen.insert(chosen.end(), more.chosen.begin(), more.chosen.end());
}

void FillExperts(const TokenExperts& from, uint32_t from_token, v1::TokenExperts& to) {
  const size_t skip =
      from_token > from.first ? std::min<size_t>(from_token - from.first, from.rows()) : 0;
  to.set_first(from.first + static_cast<uint32_t>(skip));
  to.set_choices(from.choices);
  std::string& bytes = *to.mutable_experts();
  bytes.clear();
  bytes.reserve(2 * (from.chosen.size() - skip * from.choices));
  for (size_t i = skip * from.choices; i < from.chosen.size(); ++i) {
    bytes.push_back(static_cast<char>(from.chosen[i] & 0xff));
    bytes.push_back(static_cast<char>(from.chosen[i] >> 8));
  }
}

Status CheckExperts(const v1::TokenExperts& experts, uint64_t tokens) {
  const uint64_t row = uint64_t{2} * experts.choices();
  if (row == 0) return Invalid("experts.choices: must not be 0");
  if (experts.experts().size() % row != 0) {
    return Invalid("experts.experts: " + std::to_string(experts.experts().size()) +
                   " bytes are no whole rows of " + std::to_string(row));
  }
  const uint64_t rows = experts.experts().size() / row;
  if (experts.first() + rows <= tokens) return Ok();
  return Invalid("experts.experts: rows up to token " + std::to_string(experts.first() + rows) +
                 " of " + std::to_string(tokens));
}

TokenExperts ReadExperts(const v1::TokenExperts& experts) {
  TokenExperts out{.first = experts.first(), .choices = experts.choices(), .chosen = {}};
  const std::string& bytes = experts.experts();
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    out.chosen.push_back(static_cast<uint16_t>(static_cast<uint8_t>(bytes[i]) |
                                               static_cast<uint8_t>(bytes[i + 1]) << 8));
  }
  return out;
}

}  // namespace tidemill
