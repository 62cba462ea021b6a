// What a model writes as a tool call: arguments, and a patch over a workspace. A patch is applied
// as a whole or not at all, and only to files a workspace may have.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/paths.h"
#include "tools/arguments.h"
#include "tools/patch.h"

namespace {

bool Same(const tidemill::Workspace& a, const tidemill::Workspace& b) {
  if (a.size() != b.size()) return false;
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    if (x->first != y->first || x->second.content != y->second.content) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (const auto arguments = Arguments::Parse(input); arguments.ok()) {
    for (const auto& [name, word] : arguments->words()) {
      (void)arguments->Text(name);
      (void)arguments->Number(name);
      (void)arguments->Texts(name);
      (void)arguments->Need(name);
    }
  }
  const Workspace before = {{"a.c", {"int a;\nint b;\nint c;\n", false}}, {"d/b.txt", {"x", true}}};
  Workspace after = before;
  if (!ApplyPatch(input, &after).ok()) {
    if (!Same(before, after)) std::abort();
    return 0;
  }
  for (const auto& [path, file] : after) {
    if (!CheckPath(path).ok()) std::abort();
  }
  return 0;
}
