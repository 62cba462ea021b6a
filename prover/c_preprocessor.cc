#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "prover/c_lexer.h"

namespace tidemill {
namespace {

constexpr size_t kMacroDepthMax = 64;

// Of the compiler, in its usual dialect, where the text does not define it.
bool IsPredefined(const CToken& token) {
  return token.kind == CToken::Kind::kName && (token.text == "unix" || token.text == "linux");
}

// Headers whose names the parser knows to be the library's.
constexpr std::array<std::string_view, 20> kHeaders = {
    "assert.h", "ctype.h",  "errno.h",   "inttypes.h", "limits.h", "locale.h", "math.h",
    "setjmp.h", "signal.h", "stdarg.h",  "stdbool.h",  "stddef.h", "stdint.h", "stdio.h",
    "stdlib.h", "string.h", "strings.h", "time.h",     "wchar.h",  "wctype.h"};

struct CMacro {
  bool takes_arguments = false;
  std::vector<std::string_view> parameters;
  std::vector<CToken> body;
};

using TokenSpan = std::span<const CToken>;

class CPreprocessor {
 public:
  explicit CPreprocessor(TokenSpan tokens) : tokens_(tokens) {}

  Result<std::vector<CToken>> Run() {
    std::vector<CToken> pending;
    size_t at = 0;
    while (tokens_[at].kind != CToken::Kind::kEnd) {
      if (tokens_[at].starts_line && tokens_[at].Is("#")) {
        TM_RETURN_IF_ERROR(Expand(pending, out_));
        pending.clear();
        size_t end = at + 1;
        while (!tokens_[end].starts_line) ++end;
        TM_RETURN_IF_ERROR(Direct(tokens_.subspan(at + 1, end - at - 1), tokens_[at].line));
        at = end;
        continue;
      }
      if (Active() && IsPredefined(tokens_[at])) {
        return NotInSubset(tokens_[at].line, "a macro of the compiler");
      }
      if (Active()) pending.push_back(tokens_[at]);
      ++at;
    }
    TM_RETURN_IF_ERROR(Expand(pending, out_));
    if (!branches_.empty()) return NotC(tokens_[at].line, "#if without #endif");
    out_.push_back(tokens_[at]);
    return std::move(out_);
  }

 private:
  // A #if that is open: whether its present branch counts, and whether one of them has.
  struct Branch {
    bool counts = false;
    bool taken = false;
    bool has_else = false;
  };

  bool Active() const {
    return std::all_of(branches_.begin(), branches_.end(),
                       [](const Branch& branch) { return branch.counts; });
  }

  Status Direct(TokenSpan line, uint32_t number) {
    if (line.empty()) return Ok();
    const CToken& name = line[0];
    const TokenSpan rest = line.subspan(1);
    if (name.Is("ifdef") || name.Is("ifndef") || name.Is("if")) return Open(name, rest, number);
    if (name.Is("else") || name.Is("endif") || name.Is("elif")) return Close(name, number);
    if (!Active()) return Ok();
    if (name.Is("include")) return Include(rest, number);
    if (name.Is("define")) return Define(rest, number);
    if (name.Is("undef")) {
      if (rest.size() != 1) return NotC(number, "#undef wants one name");
      if (IsHeaderName(rest[0].text)) return NotInSubset(number, "#undef of a header's name");
      macros_.erase(rest[0].text);
      return Ok();
    }
    if (name.Is("pragma")) return Pragma(rest, number);
    if (name.Is("error")) return NotC(number, "#error");
    return NotInSubset(number, "#" + std::string(name.text));
  }

  Status Include(TokenSpan rest, uint32_t number) {
    if (rest.empty()) return NotC(number, "#include without a name");
    if (!rest[0].Is("<")) return NotInSubset(number, "#include of a file of one's own");
    std::string name;
    for (const CToken& token : rest.subspan(1)) name += token.text;
    if (!name.ends_with('>')) return NotInSubset(number, "this #include");
    name.pop_back();
    included_ = true;
    return std::find(kHeaders.begin(), kHeaders.end(), name) != kHeaders.end()
               ? Ok()
               : NotInSubset(number, "#include <" + name + ">");
  }

  // Those that say nothing of what the text means or whether it compiles.
  static Status Pragma(TokenSpan rest, uint32_t number) {
    const auto is = [&](size_t place, std::string_view word) {
      return place < rest.size() && rest[place].Is(word);
    };
    const bool harmless = (is(0, "once") && rest.size() == 1) || is(0, "unroll") ||
                          (is(0, "GCC") && is(1, "unroll")) ||
                          (is(0, "GCC") && is(1, "diagnostic") && is(2, "ignored"));
    return harmless ? Ok() : NotInSubset(number, "#pragma");
  }

  // A name that a header or the compiler may have made a macro.
  bool MayBeDefined(std::string_view name) const {
    return included_ || name.starts_with("_") || name == "unix" || name == "linux" ||
           IsHeaderName(name);
  }

  Status Open(const CToken& name, TokenSpan rest, uint32_t number) {
    if (branches_.size() >= kMacroDepthMax) return NotInSubset(number, "#if nested too deep");
    bool holds = false;
    if (!Active()) {
      // Nothing in it counts, whatever it says.
      branches_.push_back({false, true});
      return Ok();
    }
    if (name.Is("if")) {
      if (rest.size() != 1 || rest[0].kind != CToken::Kind::kNumber) {
        return NotInSubset(number, "#if with more than a number");
      }
      holds = rest[0].value != 0;
    } else {
      if (rest.size() != 1 || rest[0].kind != CToken::Kind::kName) {
        return NotC(number, "#" + std::string(name.text) + " wants one name");
      }
      holds = (macros_.count(rest[0].text) != 0) == name.Is("ifdef");
      const std::string_view text = rest[0].text;
      if (macros_.count(text) == 0 && MayBeDefined(text)) {
        return NotInSubset(number, "#" + std::string(name.text) + " " + std::string(text));
      }
    }
    branches_.push_back({holds, holds});
    return Ok();
  }

  Status Close(const CToken& name, uint32_t number) {
    if (branches_.empty()) return NotC(number, "#" + std::string(name.text) + " without #if");
    if (name.Is("endif")) {
      branches_.pop_back();
    } else if (name.Is("elif")) {
      return NotInSubset(number, "#elif");
    } else {
      Branch& branch = branches_.back();
      if (std::exchange(branch.has_else, true)) return NotC(number, "a second #else");
      branch.counts = !branch.taken;
      branch.taken = true;
    }
    return Ok();
  }

  Status Define(TokenSpan rest, uint32_t number) {
    if (rest.empty() || rest[0].kind != CToken::Kind::kName) {
      return NotC(number, "#define wants a name");
    }
    if (IsHeaderName(rest[0].text)) return NotInSubset(number, "#define of a header's name");
    CMacro macro;
    size_t at = 1;
    if (at < rest.size() && rest[at].Is("(") && !rest[at].follows_space) {
      macro.takes_arguments = true;
      for (++at; at < rest.size() && !rest[at].Is(")"); ++at) {
        if (rest[at].Is("...")) return NotInSubset(number, "a macro of any number of arguments");
        if (rest[at].kind == CToken::Kind::kName) {
          macro.parameters.push_back(rest[at].text);
        } else if (!rest[at].Is(",")) {
          return NotC(number, "a macro's parameters are names");
        }
      }
      if (at >= rest.size()) return NotC(number, "a macro's parameters do not end");
      ++at;
    }
    for (; at < rest.size(); ++at) {
      if (rest[at].Is("#") || rest[at].Is("##")) return NotInSubset(number, "# in a macro");
      macro.body.push_back(rest[at]);
    }
    macros_.insert_or_assign(rest[0].text, std::move(macro));
    return Ok();
  }

  Status Expand(TokenSpan in, std::vector<CToken>& out) {
    for (size_t at = 0; at < in.size(); ++at) {
      if (out_.size() + out.size() > kCTokensMax || ++work_ > 4 * kCTokensMax) {
        return NotInSubset(in[at].line, "macros that expand to too much");
      }
      const auto found = in[at].kind == CToken::Kind::kName && !in[at].painted
                             ? macros_.find(in[at].text)
                             : macros_.end();
      const bool open =
          std::find(expanding_.begin(), expanding_.end(), in[at].text) != expanding_.end();
      const bool called = at + 1 < in.size() && in[at + 1].Is("(");
      if (found == macros_.end() || open || (found->second.takes_arguments && !called)) {
        out.push_back(in[at]);
        out.back().painted |= open;
        continue;
      }
      if (expanding_.size() >= kMacroDepthMax) {
        return NotInSubset(in[at].line, "macros nested too deep");
      }
      const CMacro& macro = found->second;
      const uint32_t line = in[at].line;
      std::vector<std::vector<CToken>> arguments;
      if (macro.takes_arguments) TM_RETURN_IF_ERROR(Arguments(macro, in, at, arguments));
      std::vector<CToken> body;
      if (!Substitute(macro, arguments, line, body)) {
        return NotInSubset(line, "a macro that expands to too much");
      }
      expanding_.push_back(found->first);
      TM_RETURN_IF_ERROR(Expand(body, out));
      expanding_.pop_back();
    }
    return Ok();
  }

  // `at` goes from the macro's name to the closing parenthesis.
  Status Arguments(const CMacro& macro, TokenSpan in, size_t& at,
                   std::vector<std::vector<CToken>>& arguments) {
    const uint32_t line = in[at].line;
    const size_t first = at + 2;
    size_t start = first;
    int depth = 1;
    for (at = first; at < in.size(); ++at) {
      if (in[at].Is("(")) ++depth;
      if (in[at].Is(")")) --depth;
      if (depth == 0 || (depth == 1 && in[at].Is(","))) {
        arguments.emplace_back();
        TM_RETURN_IF_ERROR(Expand(in.subspan(start, at - start), arguments.back()));
        start = at + 1;
      }
      if (depth == 0) break;
    }
    if (depth != 0) return NotC(line, "a macro's arguments do not end");
    if (macro.parameters.empty() && arguments.size() == 1 && arguments[0].empty()) {
      arguments.clear();
    }
    if (arguments.size() != macro.parameters.size()) {
      return NotC(line, "a macro with another number of arguments");
    }
    return Ok();
  }

  // False: it would be too long.
  static bool Substitute(const CMacro& macro, const std::vector<std::vector<CToken>>& arguments,
                         uint32_t line, std::vector<CToken>& body) {
    for (const CToken& token : macro.body) {
      const auto parameter =
          std::find(macro.parameters.begin(), macro.parameters.end(), token.text);
      if (token.kind == CToken::Kind::kName && parameter != macro.parameters.end()) {
        const auto& argument = arguments[static_cast<size_t>(parameter - macro.parameters.begin())];
        body.insert(body.end(), argument.begin(), argument.end());
      } else {
        body.push_back(token);
        body.back().line = line;
      }
      if (body.size() > kCTokensMax) return false;
    }
    return true;
  }

  const TokenSpan tokens_;
  std::map<std::string_view, CMacro> macros_;
  std::vector<Branch> branches_;
  bool included_ = false;
  std::vector<std::string_view> expanding_;
  std::vector<CToken> out_;
  size_t work_ = 0;
};

}  // namespace

Result<std::vector<CToken>> PreprocessC(const std::vector<CToken>& tokens) {
  return CPreprocessor(tokens).Run();
}

}  // namespace tidemill
