// What a text may be, put together of parts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tidemill {

struct ConstraintPart {
  enum class Kind : uint8_t {
    kText,      // `text`
    kSchema,    // a document that satisfies `schema`
    kObject,    // any JSON object
    kRegex,     // a whole match of `text`
    kGrammar,   // of the GBNF grammar `text`
    kUntil,     // anything up to and with the first `text`
    kWithout,   // anything in which `text` does not occur
    kSequence,  // `parts`, one after another
    kChoice,    // one of `parts`
    kRepeat,    // `parts`, any number of times
  };
  Kind kind = Kind::kText;
  std::string text{};
  nlohmann::ordered_json schema{};
  std::vector<ConstraintPart> parts{};
};

}  // namespace tidemill
