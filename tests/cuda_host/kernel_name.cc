// The name of a function of this program from the symbol table of its file.
#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cuda_host/block.h"

namespace cuda_host {
namespace {

// Where this program lies in memory.
uintptr_t LoadAddress() {
  uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        *static_cast<uintptr_t*>(to) = info->dlpi_addr;
        return 1;  // the first is the program
      },
      &base);
  return base;
}

std::string Demangled(const char* symbol) {
  int status = 0;
  char* readable = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 ? readable : symbol;
  std::free(readable);
  const std::string unnamed = "(anonymous namespace)::";
  for (size_t at = name.find(unnamed); at != std::string::npos; at = name.find(unnamed)) {
    name.erase(at, unnamed.size());
  }
  return name.substr(0, name.find('('));
}

template <typename T>
T At(const std::vector<char>& file, size_t offset) {
  T value{};
  if (offset + sizeof(T) <= file.size()) std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

}  // namespace

std::string NameOfKernel(const void* kernel) {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(in),
                               std::istreambuf_iterator<char>()};
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(kernel) - LoadAddress();
  const auto head = At<Elf64_Ehdr>(file, 0);
  const auto section = [&](size_t i) {
    return At<Elf64_Shdr>(file, head.e_shoff + i * head.e_shentsize);
  };
  for (size_t i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr names = section(symbols.sh_link);
    for (size_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = At<Elf64_Sym>(file, symbols.sh_offset + at);
      if (symbol.st_value != wanted || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      return Demangled(file.data() + names.sh_offset + symbol.st_name);
    }
  }
  return "the kernel at " + std::to_string(wanted);
}

}  // namespace cuda_host
