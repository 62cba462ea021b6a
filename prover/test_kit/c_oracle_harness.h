// The C program around the functions that an oracle runs.
#pragma once

namespace tidemill {

// A trap, a crash or too much CPU time in a call ends the call. The functions run in processes of
// their own, because one that writes where it must not may break whatever comes after it. If a
// process dies, each of its functions gets one for itself.
inline constexpr char kOracleHarness[] = R"(
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#define ORACLE_WIDTH (ORACLE_HIGH - ORACLE_LOW + 1)
#define ORACLE_GRID (ORACLE_WIDTH * ORACLE_WIDTH)
#define ORACLE_QUIET __attribute__((no_sanitize("undefined"))) static
static sigjmp_buf oracle_env;
static volatile int oracle_ticks, oracle_n, oracle_slow;
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
ORACLE_QUIET int oracle_inputs(int i) { return ORACLE_GRID + oracle_all[i].more_count; }
ORACLE_QUIET void oracle_run(int i, long place) {
  const int inputs = oracle_inputs(i);
  oracle_slow = 0;
  for (oracle_n = 0; oracle_n < inputs && oracle_slow < 3; ++oracle_n) {
    const int n = oracle_n, *more = oracle_all[i].more[n < ORACLE_GRID ? 0 : n - ORACLE_GRID];
    const int a = n < ORACLE_GRID ? ORACLE_LOW + n / ORACLE_WIDTH : more[0];
    const int b = n < ORACLE_GRID ? ORACLE_LOW + n % ORACLE_WIDTH : more[1];
    oracle_ticks = oracle_bad = 0;
    const int how = sigsetjmp(oracle_env, 0);
    if (how == 0) {
      oracle_value[place + n] = oracle_all[i].f(a, b);
      oracle_status[place + n] = oracle_bad;
    } else {
      oracle_status[place + oracle_n] = how;
      oracle_slow += how >= 2;
    }
  }
}
ORACLE_QUIET void oracle_child(int first, int end) {
  struct sigaction action;
  stack_t stack = {oracle_stack, 0, sizeof oracle_stack};
  struct itimerval timer = {{0, 20000}, {0, 20000}};
  struct rlimit cpu = {3 + end - first, 3 + end - first};
  int signals[] = {SIGILL, SIGTRAP, SIGSEGV, SIGFPE, SIGBUS, SIGABRT, SIGVTALRM};
  long place = 0;
  memset(&action, 0, sizeof action);
  action.sa_handler = oracle_trap;
  action.sa_flags = SA_NODEFER | SA_ONSTACK;
  sigaltstack(&stack, 0);
  for (int i = 0; i < 7; ++i) sigaction(signals[i], &action, 0);
  setrlimit(RLIMIT_CPU, &cpu);
  setitimer(ITIMER_VIRTUAL, &timer, 0);
  for (int i = first; i < end; ++i) {
    oracle_run(i, place);
    place += oracle_inputs(i);
  }
  _exit(0);
}
ORACLE_QUIET int oracle_process(int first, int end, FILE* out) {
  long inputs = 0, place = 0;
  int status = 0;
  for (int i = first; i < end; ++i) inputs += oracle_inputs(i);
  const size_t bytes = inputs * 9;
  oracle_value = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  oracle_status = (unsigned char*)(oracle_value + inputs);
  memset(oracle_status, 2, inputs);
  const int child = fork();
  if (child == 0) oracle_child(first, end);
  waitpid(child, &status, 0);
  const int whole = status == 0 || end - first == 1;
  for (int i = first; whole && i < end; ++i) {
    fwrite(oracle_status + place, 1, oracle_inputs(i), out);
    fwrite(oracle_value + place, 8, oracle_inputs(i), out);
    place += oracle_inputs(i);
  }
  munmap(oracle_value, bytes);
  return whole;
}
int main(int argc, char** argv) {
  FILE* out = fopen(argv[argc - 1], "wb");
  const int all = sizeof oracle_all / sizeof *oracle_all;
  for (int i = 0; i < all; i += ORACLE_TOGETHER) {
    const int end = all - i < ORACLE_TOGETHER ? all : i + ORACLE_TOGETHER;
    if (oracle_process(i, end, out)) continue;
    for (int k = i; k < end; ++k) oracle_process(k, k + 1, out);
  }
  return fclose(out);
}
)";

}  // namespace tidemill
