#include "tasks/root_fs.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/hash.h"
#include "tasks/unpack.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using RootJson = nlohmann::json;

constexpr size_t kOciJsonMax = size_t{4} << 20;
constexpr size_t kLayersMax = 256;
constexpr size_t kVariablesMax = 256;

Result<std::string> HashOfFile(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  if (!input) return NotFound(path + ": cannot be read");
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  TM_CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  char block[64 * 1024];
  while (input.read(block, sizeof block) || input.gcount() > 0) {
    EVP_DigestUpdate(context, block, static_cast<size_t>(input.gcount()));
  }
  unsigned char digest[32];
  EVP_DigestFinal_ex(context, digest, nullptr);
  EVP_MD_CTX_free(context);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  return hex;
}

// A blob of an OCI layout, by its digest, which its content must have.
Result<std::string> BlobPath(const std::string& layout, const RootJson& descriptor) {
  const std::string digest =
      descriptor.is_object() && descriptor.contains("digest") && descriptor["digest"].is_string()
          ? descriptor["digest"].get<std::string>()
          : "";
  constexpr std::string_view kAlgorithm = "sha256:";
  const std::string hex = digest.size() > kAlgorithm.size() ? digest.substr(kAlgorithm.size()) : "";
  if (!digest.starts_with(kAlgorithm) || hex.size() != 64 ||
      hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return Invalid(layout + ": a descriptor has no sha256 digest");
  }
  const std::string path = layout + "/blobs/sha256/" + hex;
  TM_ASSIGN_OR_RETURN(const std::string found, HashOfFile(path));
  if (found != hex) return Invalid(path + ": does not have the hash of its name");
  return path;
}

Result<RootJson> ReadOciJson(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kOciJsonMax));
  const auto shallow = [](int depth, RootJson::parse_event_t, RootJson&) { return depth <= 32; };
  RootJson json = RootJson::parse(text, shallow, false);
  if (json.is_discarded() || !json.is_object()) return Invalid(path + ": is no JSON object");
  return json;
}

struct OciImage {
  std::vector<std::string> layers;  // paths of tar files
  std::vector<std::string> environment;
};

Result<OciImage> ReadOciLayout(const std::string& layout) {
  TM_ASSIGN_OR_RETURN(const RootJson index, ReadOciJson(layout + "/index.json"));
  if (!index.contains("manifests") || !index["manifests"].is_array() ||
      index["manifests"].size() != 1) {
    return Invalid(layout + "/index.json: must name one image");
  }
  TM_ASSIGN_OR_RETURN(const std::string manifest_path, BlobPath(layout, index["manifests"][0]));
  TM_ASSIGN_OR_RETURN(const RootJson manifest, ReadOciJson(manifest_path));
  if (!manifest.contains("layers") || !manifest["layers"].is_array() ||
      manifest["layers"].size() > kLayersMax || !manifest.contains("config")) {
    return Invalid(manifest_path + ": is no manifest of an image with at most 256 layers");
  }
  OciImage image;
  for (const RootJson& layer : manifest["layers"]) {
    TM_ASSIGN_OR_RETURN(image.layers.emplace_back(), BlobPath(layout, layer));
  }
  TM_ASSIGN_OR_RETURN(const std::string config_path, BlobPath(layout, manifest["config"]));
  TM_ASSIGN_OR_RETURN(const RootJson config, ReadOciJson(config_path));
  const RootJson inner = config.value("config", RootJson::object());
  const RootJson variables =
      inner.is_object() ? inner.value("Env", RootJson::array()) : RootJson::array();
  for (const RootJson& variable : variables) {
    if (!variable.is_string() || image.environment.size() == kVariablesMax) continue;
    const std::string text = variable.get<std::string>();
    const bool one_line = text.find('\n') == std::string::npos && text.find('\0') == text.npos;
    if (one_line && text.find('=') != std::string::npos && text.size() < 4096) {
      image.environment.push_back(text);
    }
  }
  return image;
}

// Under another name until it is whole; two processes that unpack the same root do not meet.
Status Unpack(const std::vector<std::string>& layers, const std::vector<std::string>& environment,
              const std::string& place, const RootLimits& limits) {
  const std::string partial = place + ".partial-" + std::to_string(getpid());
  std::error_code ignored;
  fs::remove_all(partial, ignored);
  Status status = MakeDirectories(partial);
  UnpackBudget budget{limits.entries_max, limits.file_bytes_max, limits.bytes_max};
  for (const std::string& layer : layers) {
    if (!status.ok()) break;
    status = UnpackLayer(layer, partial, &budget).WithContext(layer);
  }
  const auto has = [&](const char* name) {
    struct stat info = {};
    return lstat((partial + "/" + name).c_str(), &info) == 0;
  };
  if (status.ok() && !has("bin") && !has("usr")) {
    status = Invalid("has neither /bin nor /usr, so it is no root file system");
  }
  std::string variables;
  for (const std::string& one : environment) variables += one + "\n";
  if (status.ok()) status = WriteFileAtomically(place + ".env", variables);
  if (status.ok() && rename(partial.c_str(), place.c_str()) != 0 && !fs::exists(place, ignored)) {
    status = FileFailure(place, "cannot rename to", errno);
  }
  fs::remove_all(partial, ignored);
  return status;
}

}  // namespace

std::string RootsFolder(const std::string& configured) {
  if (!configured.empty()) return configured;
  // Boxes of root run as other users, who cannot look into root's home.
  if (geteuid() == 0) return "/var/cache/tidemill/roots";
  const char* cache = getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/tidemill/roots";
  const char* home = getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.cache/tidemill/roots";
}

Result<std::string> PrepareRoot(const std::string& source, const std::string& roots,
                                const RootLimits& limits) {
  std::error_code error;
  TM_RETURN_IF_ERROR(MakeDirectories(roots));
  if (fs::is_regular_file(source, error)) {
    TM_ASSIGN_OR_RETURN(const std::string hash, HashOfFile(source));
    if (fs::is_directory(roots + "/" + hash, error)) return hash;
    TM_RETURN_IF_ERROR(Unpack({source}, {}, roots + "/" + hash, limits).WithContext(source));
    return hash;
  }
  if (!fs::is_directory(source, error)) return NotFound(source + ": no such root file system");
  if (fs::exists(source + "/oci-layout", error)) {
    TM_ASSIGN_OR_RETURN(const OciImage image, ReadOciLayout(source));
    std::string parts;
    for (const std::string& layer : image.layers) parts += fs::path(layer).filename().string();
    for (const std::string& variable : image.environment) parts += "\n" + variable;
    const std::string hash = Sha256Hex("oci " + parts);
    if (fs::is_directory(roots + "/" + hash, error)) return hash;
    TM_RETURN_IF_ERROR(
        Unpack(image.layers, image.environment, roots + "/" + hash, limits).WithContext(source));
    return hash;
  }
  const std::string absolute = fs::canonical(source, error).string();
  if (error || (!fs::exists(absolute + "/bin") && !fs::exists(absolute + "/usr"))) {
    return Invalid(source + ": has neither bin nor usr, so it is no root file system");
  }
  const std::string hash = Sha256Hex("folder " + absolute);
  fs::create_directory_symlink(absolute, roots + "/" + hash, error);
  if (error && !fs::exists(roots + "/" + hash)) {
    return Unavailable(roots + ": cannot be written: " + error.message());
  }
  return hash;
}

Result<RootPlace> FindRoot(const std::string& hash, const std::string& roots) {
  if (hash.size() != 64 || hash.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return Invalid("\"" + hash + "\" is no hash of a root file system");
  }
  std::error_code error;
  RootPlace place;
  place.folder = fs::canonical(roots + "/" + hash, error).string();
  if (error) {
    return NotFound("the root file system " + hash.substr(0, 12) + " is not in " + roots +
                    "; tidemill tasks try, on this machine, puts it there");
  }
  std::ifstream variables(roots + "/" + hash + ".env");
  for (std::string line; std::getline(variables, line);) place.environment.push_back(line);
  return place;
}

}  // namespace tidemill
