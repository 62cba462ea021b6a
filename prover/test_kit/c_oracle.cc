#include "prover/test_kit/c_oracle.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "core/files.h"
#include "prover/c_lexer.h"
#include "prover/test_kit/c_oracle_harness.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

// Names that a text declares at file scope, and its macros.
class FileScope {
 public:
  explicit FileScope(const std::string& text) {
    const auto tokens = LexC(text);
    if (!tokens.ok()) return;
    for (size_t i = 0; i + 1 < tokens->size(); ++i) Look((*tokens)[i], (*tokens)[i + 1]);
    for (const std::string& macro : macros) names.erase(macro);
    for (const char* word : {"int", "void", "long", "char", "short", "unsigned", "while", "enum"})
      names.erase(word);
  }

  std::set<std::string> names;
  std::set<std::string> macros;

 private:
  void Look(const CToken& token, const CToken& next) {
    if (token.Is("enum")) in_enum_ = true;
    if (token.Is("{") || token.Is("(")) ++depth_;
    if (token.Is("}") || token.Is(")")) --depth_;
    if (token.Is("}") || token.Is(")") || token.Is(";")) in_enum_ = false;
    if (before_ == "define") macros.insert(std::string(token.text));
    const bool is_tag = before_ == "struct" || before_ == "union" || before_ == "enum";
    const bool declares =
        next.Is("(") || next.Is("[") || next.Is("=") || next.Is(";") || (is_tag && next.Is("{"));
    const bool in_file = depth_ == 0 && declares && !token.Is("define");
    const bool in_enum = in_enum_ && depth_ == 1 && (before_ == "{" || before_ == ",");
    if (token.kind == CToken::Kind::kName && (in_file || in_enum)) {
      names.insert(std::string(token.text));
    }
    before_ = std::string(token.text);
  }

  int depth_ = 0;
  bool in_enum_ = false;
  std::string before_;
};

void AddQuestion(const COracleQuestion& question, size_t i, std::ostream& out) {
  const FileScope scope(question.text);
  for (const std::string& name : scope.names) {
    out << "#define " << name << " " << name << "_" << i << "\n";
  }
  out << "#line 1 \"text" << i << "\"\n" << question.text << "\n";
  for (const std::string& name : scope.names) out << "#undef " << name << "\n";
  for (const std::string& name : scope.macros) out << "#undef " << name << "\n";
  out << "static const int oracle_more_" << i << "[][2] = {";
  for (const auto& [a, b] : question.more) out << "{" << a << "," << b << "},";
  out << "{0, 0}};\n";
}

std::string Program(const std::vector<COracleQuestion>& questions, const COracleOptions& options) {
  std::ostringstream out;
  out << "#include <limits.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>\n"
         "#include <string.h>\nstatic int oracle_zero;\n"
      << options.shared;
  for (size_t i = 0; i < questions.size(); ++i) AddQuestion(questions[i], i, out);
  out << "static struct { int (*f)(int, int); const int (*more)[2]; int more_count; } "
         "oracle_all[] = {";
  for (size_t i = 0; i < questions.size(); ++i) {
    out << "{f_" << i << ", oracle_more_" << i << ", " << questions[i].more.size() << "},\n";
  }
  out << "};\n#define ORACLE_LOW " << options.low << "\n#define ORACLE_HIGH " << options.high
      << "\n#define ORACLE_TOGETHER " << options.functions_a_process << "\n"
      << kOracleHarness;
  return out.str();
}

// The program's output: for each question its states, then its values.
Result<std::vector<COracleAnswer>> ReadAnswers(const std::string& bytes,
                                               const std::vector<COracleQuestion>& questions,
                                               const COracleOptions& options) {
  std::vector<COracleAnswer> answers(questions.size());
  size_t at = 0;
  for (size_t i = 0; i < questions.size(); ++i) {
    COracleAnswer& answer = answers[i];
    answer.low = options.low;
    answer.high = options.high;
    answer.more = questions[i].more;
    const size_t inputs = answer.InRange() + answer.more.size();
    if (bytes.size() - at < inputs * 9) return Internal("its output is too short");
    answer.status.assign(bytes.data() + at, bytes.data() + at + inputs);
    answer.value.resize(inputs);
    std::memcpy(answer.value.data(), bytes.data() + at + inputs, inputs * 8);
    at += inputs * 9;
  }
  if (at != bytes.size()) return Internal("its output is too long");
  return answers;
}

}  // namespace

size_t COracleAnswer::InRange() const {
  const auto width = static_cast<size_t>(high - low + 1);
  return width * width;
}

IntPair COracleAnswer::Input(size_t index) const {
  if (index >= InRange()) return more[index - InRange()];
  const auto width = static_cast<size_t>(high - low + 1);
  return {low + static_cast<int>(index / width), low + static_cast<int>(index % width)};
}

std::optional<size_t> COracleAnswer::Find(int64_t a, int64_t b) const {
  if (a >= low && a <= high && b >= low && b <= high) {
    return static_cast<size_t>((a - low) * (high - low + 1) + (b - low));
  }
  for (size_t i = 0; i < more.size(); ++i) {
    if (more[i][0] == a && more[i][1] == b) return InRange() + i;
  }
  return std::nullopt;
}

void COracleAnswer::AddUndefined(const COracleAnswer& other) {
  for (size_t i = 0; i < status.size(); ++i) {
    if (status[i] == kReturned && other.status[i] == kUndefined) status[i] = kUndefined;
  }
}

std::string COracleAnswer::Text(size_t i) const {
  const IntPair input = Input(i);
  return "f(" + std::to_string(input[0]) + ", " + std::to_string(input[1]) + ") gave " +
         std::to_string(value[i]) + " (status " + std::to_string(status[i]) + ")";
}

std::string WithHiddenConstants(const std::string& text) {
  // Names come first, so that the digits of one are not taken for a number.
  static const std::regex tokens(
      R"(case\s+[^:]*:|static const[^;]*;|\[\d+\]|'(\\.|[^'])'|)"
      R"(([A-Z0-9]+_(?:MIN|MAX)\b|\b\d[0-9a-fA-FxuUlL]*\b)|[A-Za-z_]\w*)");
  std::string out;
  size_t at = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), tokens), end; it != end; ++it) {
    const std::smatch& match = *it;
    out += text.substr(at, static_cast<size_t>(match.position()) - at);
    out += match[2].matched ? "(" + match.str() + " + oracle_zero)" : match.str();
    at = static_cast<size_t>(match.position() + match.length());
  }
  return out + text.substr(at);
}

Result<std::vector<COracleAnswer>> AskCompiler(const std::vector<COracleQuestion>& questions,
                                               const COracleOptions& options) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "all.c") << Program(questions, options);
  const std::string trap = options.compiler.find("clang") != std::string::npos
                               ? "-fsanitize-trap=undefined"
                               : "-fsanitize-undefined-trap-on-error";
  const std::string address =
      options.address ? " -DORACLE_ADDRESS -fsanitize=address -fsanitize-recover=address" : "";
  const std::string compile = options.compiler + " -std=gnu17 -O0 -w -fsanitize=undefined " + trap +
                              address + " " + folder / "all.c" + " -o " + folder / "all 2> " +
                              folder / "log";
  if (std::system(compile.c_str()) != 0) {
    return Invalid(options.compiler + ": " + TextOf(folder / "log").substr(0, 2000));
  }
  if (std::system((folder / "all " + folder / "out").c_str()) != 0) {
    return Internal("the program of all functions failed");
  }
  return ReadAnswers(TextOf(folder / "out"), questions, options);
}

Result<std::vector<COracleAnswer>> AskCompiler(const std::vector<std::string>& texts,
                                               const COracleOptions& options) {
  std::vector<COracleQuestion> questions;
  for (const std::string& text : texts) questions.push_back({text, {}});
  return AskCompiler(questions, options);
}

}  // namespace tidemill
