#include "tests/proof/c_oracle.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "core/files.h"
#include "core/test_kit.h"
#include "reward/verifiers/c_lexer.h"

namespace tidemill {
namespace {

// A trap, a crash or too much CPU time in a call ends the call. Each function has a process of its
// own, because one that writes where it must not may break whatever comes after it.
constexpr char kHarness[] = R"(
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#define ORACLE_INPUTS ((ORACLE_HIGH - ORACLE_LOW + 1) * (ORACLE_HIGH - ORACLE_LOW + 1))
static sigjmp_buf oracle_env;
static volatile int oracle_ticks, oracle_a, oracle_b, oracle_n, oracle_slow;
static char oracle_stack[65536];
static unsigned char *oracle_status;
static long long *oracle_value;
static volatile int oracle_bad;
#ifdef ORACLE_ADDRESS
void __asan_on_error(void) { oracle_bad = 1; }
const char* __asan_default_options(void) {
  return "halt_on_error=0:suppress_equal_pcs=0:log_path=/dev/null:symbolize=0:detect_leaks=0:"
         "handle_segv=0:handle_sigill=0:handle_sigfpe=0:handle_abort=0";
}
#endif
static void oracle_trap(int signal) {
  if (signal == SIGVTALRM) { if (++oracle_ticks < 3) return; siglongjmp(oracle_env, 2); }
  siglongjmp(oracle_env, signal == SIGSEGV ? 3 : 1);
}
__attribute__((no_sanitize("undefined"))) static void oracle_run(int (*f)(int, int)) {
  for (oracle_a = ORACLE_LOW; oracle_a <= ORACLE_HIGH; ++oracle_a) {
    for (oracle_b = ORACLE_LOW; oracle_b <= ORACLE_HIGH; ++oracle_b, ++oracle_n) {
      if (oracle_slow >= 3) return;
      oracle_ticks = oracle_bad = 0;
      const int how = sigsetjmp(oracle_env, 0);
      if (how == 0) {
        oracle_value[oracle_n] = f(oracle_a, oracle_b);
        oracle_status[oracle_n] = oracle_bad;
      } else {
        oracle_status[oracle_n] = how;
        oracle_slow += how >= 2;
      }
    }
  }
}
__attribute__((no_sanitize("undefined"))) static void oracle_child(int (*f)(int, int)) {
  struct sigaction action;
  stack_t stack = {oracle_stack, 0, sizeof oracle_stack};
  struct itimerval timer = {{0, 20000}, {0, 20000}};
  struct rlimit cpu = {4, 4};
  int signals[] = {SIGILL, SIGTRAP, SIGSEGV, SIGFPE, SIGBUS, SIGABRT, SIGVTALRM};
  memset(&action, 0, sizeof action);
  action.sa_handler = oracle_trap;
  action.sa_flags = SA_NODEFER | SA_ONSTACK;
  sigaltstack(&stack, 0);
  for (int i = 0; i < 7; ++i) sigaction(signals[i], &action, 0);
  setrlimit(RLIMIT_CPU, &cpu);
  setitimer(ITIMER_VIRTUAL, &timer, 0);
  oracle_run(f);
  _exit(0);
}
int main(int argc, char** argv) {
  FILE* out = fopen(argv[argc - 1], "wb");
  oracle_value = mmap(0, ORACLE_INPUTS * 9, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  oracle_status = (unsigned char*)(oracle_value + ORACLE_INPUTS);
  for (int i = 0; i < (int)(sizeof oracle_all / sizeof *oracle_all); ++i) {
    memset(oracle_value, 0, ORACLE_INPUTS * 8);
    memset(oracle_status, 2, ORACLE_INPUTS);
    const int child = fork();
    if (child == 0) oracle_child(oracle_all[i]);
    waitpid(child, 0, 0);
    fwrite(oracle_status, 1, ORACLE_INPUTS, out);
    fwrite(oracle_value, 8, ORACLE_INPUTS, out);
  }
  return fclose(out);
}
)";

// Names that a text declares at file scope, and its macros.
void FindNames(const std::string& text, std::set<std::string>& names,
               std::set<std::string>& macros) {
  const auto tokens = LexC(text);
  if (!tokens.ok()) return;
  int depth = 0;
  for (size_t i = 0; i + 1 < tokens->size(); ++i) {
    const CToken& token = (*tokens)[i];
    if (token.Is("{") || token.Is("(")) ++depth;
    if (token.Is("}") || token.Is(")")) --depth;
    const CToken& next = (*tokens)[i + 1];
    if (token.Is("#") && next.Is("define")) macros.insert(std::string((*tokens)[i + 2].text));
    const bool declares = next.Is("(") || next.Is("[") || next.Is("=");
    if (depth == 0 && token.kind == CToken::Kind::kName && declares &&
        (*tokens)[i].text != "define") {
      names.insert(std::string(token.text));
    }
  }
  for (const std::string& macro : macros) names.erase(macro);
}

std::string Program(const std::vector<std::string>& texts, const COracleOptions& options) {
  std::ostringstream out;
  out << "#include <limits.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>\n"
         "#include <string.h>\n";
  for (size_t i = 0; i < texts.size(); ++i) {
    std::set<std::string> names, macros;
    FindNames(texts[i], names, macros);
    for (const std::string& name : names) {
      out << "#define " << name << " " << name << "_" << i << "\n";
    }
    out << "#line 1 \"text" << i << "\"\n" << texts[i] << "\n";
    for (const std::string& name : names) out << "#undef " << name << "\n";
    for (const std::string& name : macros) out << "#undef " << name << "\n";
  }
  out << "static int (*oracle_all[])(int, int) = {";
  for (size_t i = 0; i < texts.size(); ++i) out << "f_" << i << ", ";
  out << "};\n#define ORACLE_LOW " << options.low << "\n#define ORACLE_HIGH " << options.high
      << "\n"
      << kHarness;
  return out.str();
}

}  // namespace

Result<std::vector<COracleAnswer>> AskCompiler(const std::vector<std::string>& texts,
                                               const COracleOptions& options) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "all.c") << Program(texts, options);
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
  const std::string bytes = TextOf(folder / "out");
  const auto width = static_cast<size_t>(options.high - options.low + 1);
  const size_t inputs = width * width;
  if (bytes.size() != texts.size() * inputs * 9) return Internal("its output is too short");
  std::vector<COracleAnswer> answers(texts.size());
  const char* at = bytes.data();
  for (COracleAnswer& answer : answers) {
    answer.status.assign(at, at + inputs);
    answer.value.resize(inputs);
    std::memcpy(answer.value.data(), at + inputs, inputs * 8);
    at += inputs * 9;
  }
  return answers;
}

}  // namespace tidemill
