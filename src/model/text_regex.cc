#include "model/text_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include "model/new_characters.h"

namespace tidemill {
namespace {

constexpr size_t kPatternBytesMax = 64 * 1024;
// A step may be a scan of the text. Ordinary patterns need one or two for each byte of a run.
constexpr size_t kStepsLeast = 500'000, kStepsMost = 20'000'000, kStepsPerByte = 4;
constexpr uint32_t kHeapKibMax = 64 * 1024;
constexpr size_t kJitStackBytesMax = size_t{8} << 20;

// Oniguruma's \s is White_Space; PCRE2's also has U+180E. Its \w has marks and no numbers but
// decimal ones.
constexpr std::string_view kSpaceItems =
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";
constexpr std::string_view kWordItems = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kHexItems = "0-9a-fA-F";

// A thread's working memory for matching; the same for every pattern.
struct MatchScratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(64 * 1024, kJitStackBytesMax, nullptr);

  MatchScratch() {
    TM_CHECK(data != nullptr && context != nullptr && stack != nullptr, "out of memory");
    pcre2_set_heap_limit(context, kHeapKibMax);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~MatchScratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;
};

MatchScratch& ThreadScratch() {
  thread_local MatchScratch scratch;
  return scratch;
}

// One pass over the pattern, left to right; `out_` is the same in PCRE2's dialect.
class Translator {
 public:
  Translator(std::string_view pattern, bool newer) : rest_(pattern), newer_(newer) {}

  Result<std::string> Run() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\\') {
        TM_RETURN_IF_ERROR(Escape());
      } else if (in_class_) {
        TM_RETURN_IF_ERROR(ClassItem(c));
      } else if (c == '[') {
        OpenClass();
      } else if (c == '(') {
        TM_RETURN_IF_ERROR(Group());
      } else if (c == '{') {
        TM_RETURN_IF_ERROR(Interval());
      } else {
        Take(1);
      }
    }
    return out_;
  }

 private:
  void Take(size_t n) {
    out_.append(rest_.substr(0, n));
    rest_.remove_prefix(std::min(n, rest_.size()));
  }
  Status Refuse(const std::string& what) const {
    return Invalid("pattern: " + what + " is not supported (before \"" +
                   std::string(rest_.substr(0, 20)) + "\")");
  }

  void OpenClass() {
    in_class_ = true;
    Take(rest_.starts_with("[^") ? 2 : 1);
    if (rest_.starts_with(']')) {  // a first ']' stands for itself
      out_.append("\\]");
      rest_.remove_prefix(1);
    }
  }

  Status ClassItem(char c) {
    if (c == '[') return Refuse("a class inside of a class");
    if (rest_.starts_with("&&")) return Refuse("the intersection of classes");
    if (c == ']') in_class_ = false;
    Take(1);
    return Ok();
  }

  Status Group() {
    constexpr std::array<std::string_view, 8> kKnown = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    if (rest_.starts_with("(*")) return Refuse("\"(*\"");
    if (!rest_.starts_with("(?")) {
      Take(1);
      return Ok();
    }
    for (const std::string_view known : kKnown) {
      if (rest_.starts_with(known)) {
        Take(known.size());
        return Ok();
      }
    }
    return Refuse("this kind of group");
  }

  Status Interval() {
    const size_t close = rest_.find('}');
    const bool interval =
        close != std::string_view::npos && close > 1 &&
        rest_.substr(1, close - 1).find_first_not_of("0123456789,") == std::string_view::npos;
    if (!interval) {
      out_.append("\\{");
      rest_.remove_prefix(1);
      return Ok();
    }
    if (rest_.size() > close + 1 && rest_[close + 1] == '+') return Refuse("\"}+\"");
    if (rest_[1] == ',') {  // {,n} is {0,n}
      out_.append("{0");
      rest_.remove_prefix(1);
      Take(close);
      return Ok();
    }
    Take(close + 1);
    return Ok();
  }

  void Class(std::string_view items, bool negated) {
    if (in_class_) {
      out_.append(items);
    } else {
      out_.append(negated ? "[^" : "[").append(items).append("]");
    }
    rest_.remove_prefix(2);
  }

  Status Escape() {
    if (rest_.size() < 2) return Invalid("pattern: ends with a backslash");
    const char c = rest_[1];
    const bool plain =
        !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
    if (plain) {
      Take(2);
      return Ok();
    }
    switch (c) {
      case 's':
        Class(kSpaceItems, false);
        return Ok();
      case 'w':
        Class(WordItems(), false);
        return Ok();
      case 'h':
        Class(kHexItems, false);
        return Ok();
      case 'S':
      case 'W':
      case 'H':
        if (in_class_) return c == 'S' ? NegatedSpaceInClass() : Refuse("this inside of a class");
        Class(c == 'S'   ? std::string(kSpaceItems)
              : c == 'W' ? WordItems()
                         : std::string(kHexItems),
              true);
        return Ok();
      case 'v':
        out_.append("\\x0b");
        rest_.remove_prefix(2);
        return Ok();
      case 'u':
        return CodePointEscape();
      case 'p':
      case 'P':
        return Property();
      default:
        if (std::string_view("dDrntfaexAz").find(c) == std::string_view::npos) {
          return Refuse("this escape");
        }
        Take(2);
        return Ok();
    }
  }

  std::string WordItems() const {
    std::string items(kWordItems);
    for (const char* category : {"L", "M", "Nd"}) {
      if (newer_) items += NewCharactersOf(category);
    }
    return items;
  }

  Status NegatedSpaceInClass() {
    out_.append("\\P{White_Space}");
    rest_.remove_prefix(2);
    return Ok();
  }

  Status CodePointEscape() {
    const std::string_view digits = rest_.substr(2, 4);
    if (digits.size() != 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      return Refuse("\"\\u\" without four hex digits");
    }
    out_.append("\\x{").append(digits).append("}");
    rest_.remove_prefix(6);
    return Ok();
  }

  Status Property() {
    const size_t close = rest_.find('}');
    if (rest_.size() < 3 || rest_[2] != '{' || close == std::string_view::npos) {
      return Refuse("a property without braces");
    }
    const bool negated = rest_[1] == 'P';
    const std::string newer = newer_ ? NewCharactersOf(rest_.substr(3, close - 3)) : "";
    // Inside of a class a negated property cannot be made smaller; it keeps the older table.
    if (newer.empty() || (negated && in_class_)) {
      Take(close + 1);
      return Ok();
    }
    std::string items = "\\p" + std::string(rest_.substr(2, close - 1)) + newer;
    rest_.remove_prefix(close - 1);
    Class(items, negated);
    return Ok();
  }

  std::string_view rest_;
  std::string out_;
  const bool newer_;
  bool in_class_ = false;
};

}  // namespace

struct TextRegex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;

  Code() = default;
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

Result<std::string> TranslateOniguruma(std::string_view pattern, bool newer) {
  if (pattern.size() > kPatternBytesMax) return Invalid("pattern: too long");
  return Translator(pattern, newer).Run();
}

Result<TextRegex> TextRegex::FromOniguruma(std::string_view pattern) {
  TM_ASSIGN_OR_RETURN(const std::string translated, TranslateOniguruma(pattern));
  TM_ASSIGN_OR_RETURN(TextRegex regex, FromPcre2(translated));
  TM_ASSIGN_OR_RETURN(const std::string newer, TranslateOniguruma(pattern, true));
  if (newer != translated) {
    TM_ASSIGN_OR_RETURN(const TextRegex other, FromPcre2(newer));
    regex.newer_ = other.code_;
  }
  return regex;
}

Result<TextRegex> TextRegex::FromPcre2(std::string_view pattern) {
  if (pattern.size() > 16 * kPatternBytesMax) return Invalid("pattern: too long");
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  TM_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, 100);
  int error = 0;
  size_t offset = 0;
  auto code = std::make_shared<Code>();
  code->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE,
      &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return Invalid("pattern: " + std::string(reinterpret_cast<const char*>(text.data())) +
                   " at byte " + std::to_string(offset));
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  TextRegex regex;
  regex.code_ = std::move(code);
  return regex;
}

TextRegex::Search TextRegex::In(std::string_view valid_utf8) const {
  return {newer_ != nullptr && HasNewCharacters(valid_utf8) ? *newer_ : *code_, valid_utf8};
}

TextRegex::Found TextRegex::Search::From(size_t from) const {
  MatchScratch& scratch = ThreadScratch();
  const size_t steps = std::min(kStepsMost, kStepsLeast + kStepsPerByte * text_.size());
  pcre2_set_match_limit(scratch.context, static_cast<uint32_t>(steps));
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code_.jit) {
    found = pcre2_jit_match(code_.code, subject, text_.size(), from, PCRE2_NO_UTF_CHECK,
                            scratch.data, scratch.context);
  }
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter uses the heap instead
    found = pcre2_match(code_.code, subject, text_.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        scratch.data, scratch.context);
  }
  if (found == PCRE2_ERROR_NOMATCH) return {};
  if (found < 0) return {.gave_up = true};
  const size_t* place = pcre2_get_ovector_pointer(scratch.data);
  return {.match = Match{place[0], place[1]}};
}

}  // namespace tidemill
