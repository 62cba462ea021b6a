#include "core/blas.h"

#include <dlfcn.h>

#include <cstdlib>

namespace tidemill {
namespace {

std::string Resolved(const char* path) {
  char* real = realpath(path, nullptr);
  std::string resolved = real != nullptr ? real : path;
  std::free(real);
  return resolved;
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string OpenBlasDetails() {
  std::string details;
  if (void* symbol = dlsym(RTLD_DEFAULT, "openblas_get_config")) {
    details = reinterpret_cast<char* (*)()>(symbol)();
    while (!details.empty() && details.back() == ' ') details.pop_back();
  }
  if (void* symbol = dlsym(RTLD_DEFAULT, "openblas_get_num_threads")) {
    details += ", threads in use " + std::to_string(reinterpret_cast<int (*)()>(symbol)());
  }
  return details;
}

}  // namespace

std::string_view BlasName(BlasKind kind) {
  switch (kind) {
    case BlasKind::kNone:
      return "none";
    case BlasKind::kOpenBlas:
      return "OpenBLAS";
    case BlasKind::kMkl:
      return "MKL";
    case BlasKind::kBlis:
      return "BLIS";
    case BlasKind::kAtlas:
      return "ATLAS";
    case BlasKind::kReference:
      return "reference BLAS";
    case BlasKind::kUnknown:
      return "unknown";
  }
  return "unknown";
}

BlasKind BlasOfFile(std::string_view file) {
  if (file.empty()) return BlasKind::kNone;
  if (Has(file, "openblas")) return BlasKind::kOpenBlas;
  if (Has(file, "mkl")) return BlasKind::kMkl;
  if (Has(file, "blis")) return BlasKind::kBlis;
  if (Has(file, "atlas")) return BlasKind::kAtlas;
  // The builds of libtorch with CUDA carry MKL inside.
  if (Has(file, "libtorch")) return BlasKind::kMkl;
  if (Has(file, "/libblas.so")) return BlasKind::kReference;
  return BlasKind::kUnknown;
}

BlasInfo CheckBlas() {
  BlasInfo info;
  void* sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info where{};
  if (sgemm == nullptr || dladdr(sgemm, &where) == 0 || where.dli_fname == nullptr) return info;
  info.file = Resolved(where.dli_fname);
  info.kind = BlasOfFile(info.file);
  if (info.kind == BlasKind::kOpenBlas) info.details = OpenBlasDetails();
  if (info.kind == BlasKind::kReference) {
    info.warning = "libtorch runs on the reference BLAS (" + info.file +
                   "), about 15 times slower than OpenBLAS";
    info.fix =
        "apt-get install libopenblas0-pthread && update-alternatives --auto "
        "libblas.so.3-$(uname -m)-linux-gnu && update-alternatives --auto "
        "liblapack.so.3-$(uname -m)-linux-gnu";
  }
  return info;
}

}  // namespace tidemill
