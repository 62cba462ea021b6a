#include "tasks/path_patterns.h"

namespace tidemill {
namespace {

std::vector<std::string_view> PartsOf(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t at = 0;;) {
    const size_t slash = path.find('/', at);
    parts.push_back(path.substr(at, slash == std::string_view::npos ? slash : slash - at));
    if (slash == std::string_view::npos) return parts;
    at = slash + 1;
  }
}

// The usual matching with one place to come back to: behind the last star.
template <typename Same, typename Star>
bool MatchSequence(size_t pattern_size, size_t text_size, Same same, Star star) {
  size_t p = 0, t = 0, star_at = std::string_view::npos, resume = 0;
  while (t < text_size) {
    if (p < pattern_size && star(p)) {
      star_at = p++;
      resume = t;
    } else if (p < pattern_size && same(p, t)) {
      ++p, ++t;
    } else if (star_at != std::string_view::npos) {
      p = star_at + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern_size && star(p)) ++p;
  return p == pattern_size;
}

bool MatchesPart(std::string_view pattern, std::string_view part) {
  return MatchSequence(
      pattern.size(), part.size(),
      [&](size_t p, size_t t) { return pattern[p] == '?' || pattern[p] == part[t]; },
      [&](size_t p) { return pattern[p] == '*'; });
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view path) {
  const auto patterns = PartsOf(pattern), parts = PartsOf(path);
  return MatchSequence(
      patterns.size(), parts.size(),
      [&](size_t p, size_t t) { return MatchesPart(patterns[p], parts[t]); },
      [&](size_t p) { return patterns[p] == "**"; });
}

bool IsPythonTest(std::string_view path) {
  const std::string_view name = PartsOf(path).back();
  return MatchesPart("test_*.py", name) || MatchesPart("*_test.py", name) || name == "tests.py";
}

const std::vector<std::string>& OwnFilePatterns() {
  static const std::vector<std::string> kPatterns = {
      // Python: hooks and settings of test runners, start-up files, compiled files. Modules that
      // would stand in front of the runner's are found by RunnersModule.
      "**/conftest.py", "**/conftest/__init__.py", "**/pytest.ini", "**/.pytest.ini",
      "**/pytest.toml", "**/.pytest.toml", "**/tox.ini", "**/setup.cfg", "**/pyproject.toml",
      "**/.coveragerc", "**/sitecustomize.py", "**/usercustomize.py", "**/*.pth", "**/*.pyc",
      "**/__pycache__/**", "**/*.egg-info/**", "**/*.dist-info/**", "**/EGG-INFO/**",
      "**/*.egg-link",
      // C and C++: how to build, what is built, and headers of the tests' own
      "**/Makefile", "**/makefile", "**/GNUmakefile", "**/*.mk", "**/CMakeLists.txt",
      "**/CMakePresets.json", "**/CTestTestfile.cmake", "**/meson.build", "**/*.o", "**/*.a",
      "**/*.so", "**/*.so.*", "**/assert.h", "**/cassert", "**/gtest/**", "**/gmock/**",
      "**/catch2/**", "**/doctest.h",
      // Rust, JavaScript, Go, Java
      "**/Cargo.toml", "**/Cargo.lock", "**/build.rs", "**/.cargo/**", "target/**",
      "**/package.json", "**/package-lock.json", "**/node_modules/**", "**/.mocharc*",
      "**/jest.config.*", "**/vitest.config.*", "**/vite.config.*", "**/babel.config.*",
      "**/.babelrc*", "**/.nycrc*", "**/.npmrc", "**/*_test.go", "**/go.mod", "**/go.work",
      "**/pom.xml", "**/build.gradle*", "**/settings.gradle*", "**/.mvn/**",
      // Version control: hooks, filters, an index that names other files
      "**/.git/**", ".git", "**/.gitattributes", "**/.gitmodules"};
  return kPatterns;
}

}  // namespace tidemill
