// Global functions.
#include <ctime>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

constexpr JinjaInt kRangeMax = 100'000;  // as jinja2's sandbox

JinjaValue GlobalRange(JinjaInterpreter& in, const JinjaArgs& args) {
  const size_t count = args.positional.size();
  if (count < 1 || count > 3) JinjaFail("range() takes one to three arguments");
  const JinjaInt start = count > 1 ? IntArgument(args.positional[0], "range()") : 0;
  const JinjaInt stop = IntArgument(args.positional[count > 1 ? 1 : 0], "range()");
  const JinjaInt step = count > 2 ? IntArgument(args.positional[2], "range()") : 1;
  if (step == 0) JinjaFail("range() arg 3 must not be zero");
  std::vector<JinjaValue> items;
  for (JinjaInt i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<JinjaInt>(items.size()) >= kRangeMax) {
      JinjaFail("range() gives more than " + IntText(kRangeMax) + " items");
    }
    items.push_back(JinjaValue::Int(i));
  }
  return MakeSequence(in.budget(), JinjaSequence::Kind::kRange, std::move(items));
}

// The entries that dict() and namespace() take: a mapping or pairs, then keywords.
std::vector<std::pair<JinjaValue, JinjaValue>> DictEntries(JinjaInterpreter& in,
                                                           const JinjaArgs& args) {
  std::vector<std::pair<JinjaValue, JinjaValue>> entries;
  if (args.positional.size() > 1) JinjaFail("takes at most one positional argument");
  for (const JinjaValue& source : args.positional) {
    if (source.IsMap()) {
      entries = source.map().entries;
      continue;
    }
    const auto pairs = JinjaIterate(in.budget(), source);
    for (const JinjaValue& pair : pairs->items) {
      const auto parts = JinjaIterate(in.budget(), pair);
      if (parts->items.size() != 2) JinjaFail("needs a mapping or pairs");
      entries.emplace_back(parts->items[0], parts->items[1]);
    }
  }
  for (const auto& [name, value] : args.named) {
    entries.emplace_back(KeywordText(in.budget(), name), value);
  }
  return entries;
}

JinjaValue GlobalDict(JinjaInterpreter& in, const JinjaArgs& args) {
  return MakeMap(in.budget(), DictEntries(in, args));
}

JinjaValue GlobalNamespace(JinjaInterpreter& in, const JinjaArgs& args) {
  JinjaValue space = in.NewNamespace();
  for (const auto& [key, value] : DictEntries(in, args)) {
    (*space.name_space())->Set(TextArgument(key, "a name").bytes, value);
  }
  return space;
}

JinjaValue GlobalRaise(JinjaInterpreter& in, const JinjaArgs& args) {
  const auto [message] = Bind(args, {"message"}, 1);
  throw JinjaError{"raise_exception: " + ToText(in.budget(), *message).text().bytes};
}

int DayOfWeek(const CivilTime& t) {  // 0 is Sunday
  constexpr int kShift[] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
  const int year = t.month < 3 ? t.year - 1 : t.year;
  return (year + year / 4 - year / 100 + year / 400 + kShift[t.month - 1] + t.day) % 7;
}

int DayOfYear(const CivilTime& t) {  // from 0
  constexpr int kBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const bool leap = (t.year % 4 == 0 && t.year % 100 != 0) || t.year % 400 == 0;
  return kBefore[t.month - 1] + t.day - 1 + (leap && t.month > 2 ? 1 : 0);
}

JinjaValue GlobalStrftimeNow(JinjaInterpreter& in, const JinjaArgs& args) {
  const auto [format_arg] = Bind(args, {"format"}, 1);
  const CivilTime& now = in.now();
  std::tm tm = {};
  tm.tm_year = now.year - 1900;
  tm.tm_mon = now.month - 1;
  tm.tm_mday = now.day;
  tm.tm_hour = now.hour;
  tm.tm_min = now.minute;
  tm.tm_sec = now.second;
  tm.tm_wday = DayOfWeek(now);
  tm.tm_yday = DayOfYear(now);
  const JinjaText& format = TextArgument(*format_arg, "the format");
  TextWriter out(in.budget());
  for (size_t at = 0; at < format.bytes.size();) {
    const size_t percent = format.bytes.find('%', at);
    out.Append(format, at, std::min(percent, format.bytes.size()));
    if (percent == std::string::npos || percent + 1 >= format.bytes.size()) {
      if (percent != std::string::npos) out.Own("%");
      break;
    }
    size_t end = percent + 1;
    if (format.bytes[end] == '-' && end + 1 < format.bytes.size()) ++end;
    const std::string directive = format.bytes.substr(percent, end + 1 - percent);
    char buffer[128];
    if (directive == "%f") {
      out.Own("000000");
    } else if (directive == "%z" || directive == "%Z") {
      // Python prints nothing for a time without a zone.
    } else {
      out.Own({buffer, std::strftime(buffer, sizeof buffer, directive.c_str(), &tm)});
    }
    at = end + 1;
  }
  return out.Done();
}

JinjaValue MakeFunction(std::string name,
                        std::function<JinjaValue(JinjaInterpreter&, const JinjaArgs&)> call) {
  return JinjaValue(JinjaValue::CallableRef(
      std::make_shared<JinjaCallable>(JinjaCallable{std::move(name), std::move(call)})));
}

// joiner(", "): nothing the first time it is called, the separator from then on.
JinjaValue GlobalJoiner(JinjaInterpreter&, const JinjaArgs& args) {
  const auto [separator] = Bind(args, {"sep"});
  auto used = std::make_shared<bool>(false);  // shared: by the copies of the function
  return MakeFunction("joiner",
                      [used, text = separator != nullptr ? *separator : JinjaValue::Own(", ")](
                          JinjaInterpreter&, const JinjaArgs&) {
                        return std::exchange(*used, true) ? text : JinjaValue::Own("");
                      });
}

// cycler("a", "b"): an object with next(), reset() and current.
JinjaValue GlobalCycler(JinjaInterpreter& in, const JinjaArgs& args) {
  if (args.positional.empty()) JinjaFail("at least one item has to be provided");
  JinjaValue space = in.NewNamespace();
  JinjaNamespace* const fields = space.name_space()->get();  // the interpreter keeps it
  fields->Set("current", args.positional[0]);
  auto at = std::make_shared<size_t>(0);  // shared: by both functions
  fields->Set("next", MakeFunction("next", [at, fields, items = args.positional](JinjaInterpreter&,
                                                                                 const JinjaArgs&) {
                const JinjaValue now = items[*at];
                *at = (*at + 1) % items.size();
                fields->Set("current", items[*at]);
                return now;
              }));
  fields->Set("reset", MakeFunction("reset", [at, fields, first = args.positional[0]](
                                                 JinjaInterpreter&, const JinjaArgs&) {
                *at = 0;
                fields->Set("current", first);
                return JinjaValue();
              }));
  return space;
}

constexpr JinjaGlobalEntry kGlobals[] = {
    {"range", GlobalRange},
    {"dict", GlobalDict},
    {"namespace", GlobalNamespace},
    {"raise_exception", GlobalRaise},
    {"strftime_now", GlobalStrftimeNow},
    {"joiner", GlobalJoiner},
    {"cycler", GlobalCycler},
};

}  // namespace

std::span<const JinjaGlobalEntry> GlobalFunctions() {
  return kGlobals;
}

}  // namespace tidemill
