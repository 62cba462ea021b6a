#include "engine/constraint/string_formats.h"

#include <utility>

namespace tidemill {
namespace {

#define TM_MONTH_AND_DAY                           \
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])" \
  "|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))"
#define TM_LEAP_YEAR                             \
  "(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])" \
  "|(?:[2468][048]|[13579][26])00)"
#define TM_DATE "(?:[1-9]\\d{3}-" TM_MONTH_AND_DAY "|" TM_LEAP_YEAR "-02-29)"
#define TM_TIME                                          \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?" \
  "(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define TM_BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define TM_LABEL "[a-z0-9](?:-?[a-z0-9]){0,20}"
#define TM_POINTER "(?:/(?:[^/~]|~[01]){0,20}){0,6}"
#define TM_PATH                                                    \
  "(?:/[A-Za-z0-9._~-]{1,60}){1,8}(?:\\?[A-Za-z0-9._~=&-]{0,60})?" \
  "(?:#[A-Za-z0-9._~-]{0,40})?"
#define TM_URI                                                     \
  "[a-z][a-z0-9+.-]{0,10}://" TM_HOST                              \
  "(?::\\d{1,4})?"                                                 \
  "(?:/[A-Za-z0-9._~-]{0,60}){0,8}(?:\\?[A-Za-z0-9._~=&-]{0,60})?" \
  "(?:#[A-Za-z0-9._~-]{0,40})?"
#define TM_EMAIL "[A-Za-z0-9_+-]{1,30}(?:\\.[A-Za-z0-9_+-]{1,20}){0,3}@" TM_HOST "\\.[a-z]{2,6}"
#define TM_HOST TM_LABEL "(?:\\." TM_LABEL "){0,4}"

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date-time", TM_DATE "T" TM_TIME},
    {"date", TM_DATE},
    {"time", TM_TIME},
    {"duration",
     "P(?:\\d{1,4}W|(?:\\d{1,4}Y|\\d{1,3}M|\\d{1,5}D)(?:T\\d{1,4}[HMS])?|T\\d{1,5}[HMS])"},
    {"email", TM_EMAIL},
    {"idn-email", TM_EMAIL},
    {"hostname", TM_HOST},
    {"idn-hostname", TM_HOST},
    {"ipv4", TM_BYTE "\\." TM_BYTE "\\." TM_BYTE "\\." TM_BYTE},
    {"ipv6",
     "(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|::1|::|(?:[0-9a-f]{1,4}:){1,3}(?::[0-9a-f]{1,4}){1,4}"},
    {"uuid", "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"},
    {"uri", TM_URI},
    {"iri", TM_URI},
    {"uri-reference", TM_URI "|" TM_PATH},
    {"iri-reference", TM_URI "|" TM_PATH},
    {"uri-template", "(?:/(?:[A-Za-z0-9._~-]{0,60}|\\{[a-z]{1,20}\\})){1,8}"},
    {"json-pointer", TM_POINTER},
    {"relative-json-pointer", "(?:0|[1-9]{1,3})(?:#|" TM_POINTER ")"},
    {"regex", "[A-Za-z0-9 _]{0,60}"},
};

#undef TM_EMAIL
#undef TM_URI
#undef TM_PATH
#undef TM_POINTER
#undef TM_HOST
#undef TM_LABEL
#undef TM_BYTE
#undef TM_TIME
#undef TM_DATE
#undef TM_LEAP_YEAR
#undef TM_MONTH_AND_DAY

}  // namespace

std::optional<std::string_view> PatternOfFormat(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return std::nullopt;
}

}  // namespace tidemill
