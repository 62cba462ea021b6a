#include <algorithm>
#include <array>

#include "prover/c_parser.h"

namespace tidemill {
namespace {

struct HeaderType {
  std::string_view name;
  CIntType type;
};

constexpr CIntType kCSigned8{8, true, false};
constexpr CIntType kCUnsigned8{8, false, false};
constexpr CIntType kCSigned16{16, true, false};
constexpr CIntType kCUnsigned16{16, false, false};

constexpr std::array kHeaderTypes = {
    HeaderType{"int8_t", kCSigned8},
    HeaderType{"uint8_t", kCUnsigned8},
    HeaderType{"int16_t", kCSigned16},
    HeaderType{"uint16_t", kCUnsigned16},
    HeaderType{"int32_t", kCInt},
    HeaderType{"uint32_t", kCUnsigned},
    HeaderType{"int64_t", kCLong},
    HeaderType{"uint64_t", kCUnsignedLong},
    HeaderType{"int_least8_t", kCSigned8},
    HeaderType{"uint_least8_t", kCUnsigned8},
    HeaderType{"int_least16_t", kCSigned16},
    HeaderType{"uint_least16_t", kCUnsigned16},
    HeaderType{"int_least32_t", kCInt},
    HeaderType{"uint_least32_t", kCUnsigned},
    HeaderType{"int_least64_t", kCLong},
    HeaderType{"uint_least64_t", kCUnsignedLong},
    HeaderType{"int_fast8_t", kCSigned8},
    HeaderType{"uint_fast8_t", kCUnsigned8},
    HeaderType{"int_fast16_t", kCLong},
    HeaderType{"uint_fast16_t", kCUnsignedLong},
    HeaderType{"int_fast32_t", kCLong},
    HeaderType{"uint_fast32_t", kCUnsignedLong},
    HeaderType{"int_fast64_t", kCLong},
    HeaderType{"uint_fast64_t", kCUnsignedLong},
    HeaderType{"intptr_t", kCLong},
    HeaderType{"uintptr_t", kCUnsignedLong},
    HeaderType{"intmax_t", kCLong},
    HeaderType{"uintmax_t", kCUnsignedLong},
    HeaderType{"size_t", kCUnsignedLong},
    HeaderType{"ssize_t", kCLong},
    HeaderType{"ptrdiff_t", kCLong},
    HeaderType{"bool", kCBool},
};

// PREFIX_MAX, PREFIX_MIN and, unsigned, UPREFIX_MAX. A limit of a small type is an int.
constexpr std::array kLimits = {
    HeaderType{"INT", kCInt},
    HeaderType{"UINT", kCUnsigned},
    HeaderType{"LONG", kCLong},
    HeaderType{"ULONG", kCUnsignedLong},
    HeaderType{"LLONG", kCLong},
    HeaderType{"ULLONG", kCUnsignedLong},
    HeaderType{"SHRT", kCSigned16},
    HeaderType{"USHRT", kCUnsigned16},
    HeaderType{"SCHAR", kCSigned8},
    HeaderType{"UCHAR", kCUnsigned8},
    HeaderType{"CHAR", kCSigned8},
    HeaderType{"INT8", kCSigned8},
    HeaderType{"UINT8", kCUnsigned8},
    HeaderType{"INT16", kCSigned16},
    HeaderType{"UINT16", kCUnsigned16},
    HeaderType{"INT32", kCInt},
    HeaderType{"UINT32", kCUnsigned},
    HeaderType{"INT64", kCLong},
    HeaderType{"UINT64", kCUnsignedLong},
    HeaderType{"SIZE", kCUnsignedLong},
    HeaderType{"INTMAX", kCLong},
    HeaderType{"UINTMAX", kCUnsignedLong},
    HeaderType{"PTRDIFF", kCLong},
};

struct BuiltinName {
  std::string_view name;
  CBuiltin builtin;
  CIntType argument;
};

constexpr std::array kBuiltins = {
    BuiltinName{"abs", CBuiltin::kAbs, kCInt},
    BuiltinName{"labs", CBuiltin::kAbs, kCLong},
    BuiltinName{"llabs", CBuiltin::kAbs, kCLong},
    BuiltinName{"__builtin_abs", CBuiltin::kAbs, kCInt},
    BuiltinName{"__builtin_popcount", CBuiltin::kPopcount, kCUnsigned},
    BuiltinName{"__builtin_popcountl", CBuiltin::kPopcount, kCUnsignedLong},
    BuiltinName{"__builtin_popcountll", CBuiltin::kPopcount, kCUnsignedLong},
    BuiltinName{"__builtin_parity", CBuiltin::kParity, kCUnsigned},
    BuiltinName{"__builtin_parityl", CBuiltin::kParity, kCUnsignedLong},
    BuiltinName{"__builtin_parityll", CBuiltin::kParity, kCUnsignedLong},
    BuiltinName{"__builtin_clz", CBuiltin::kClz, kCUnsigned},
    BuiltinName{"__builtin_clzl", CBuiltin::kClz, kCUnsignedLong},
    BuiltinName{"__builtin_clzll", CBuiltin::kClz, kCUnsignedLong},
    BuiltinName{"__builtin_ctz", CBuiltin::kCtz, kCUnsigned},
    BuiltinName{"__builtin_ctzl", CBuiltin::kCtz, kCUnsignedLong},
    BuiltinName{"__builtin_ctzll", CBuiltin::kCtz, kCUnsignedLong},
    BuiltinName{"__builtin_ffs", CBuiltin::kFfs, kCInt},
    BuiltinName{"__builtin_ffsl", CBuiltin::kFfs, kCLong},
    BuiltinName{"__builtin_ffsll", CBuiltin::kFfs, kCLong},
    BuiltinName{"ffs", CBuiltin::kFfs, kCInt},
};

// Sorted. Functions and variables that a program may already have by these names.
constexpr std::array<std::string_view, 269> kLibraryNames = {
    "abort",      "abs",         "acos",      "alarm",    "aligned_alloc",
    "asctime",    "asin",        "assert",    "atan",     "atan2",
    "atexit",     "atof",        "atoi",      "atol",     "atoll",
    "bcmp",       "bcopy",       "brk",       "bsearch",  "bzero",
    "calloc",     "ceil",        "clearerr",  "clock",    "cos",
    "cosh",       "creat",       "ctime",     "daemon",   "difftime",
    "div",        "dprintf",     "drand48",   "dup",      "dup2",
    "environ",    "erand48",     "erf",       "erfc",     "errno",
    "execl",      "execv",       "exit",      "exp",      "exp2",
    "expm1",      "fabs",        "fclose",    "fdim",     "fdopen",
    "feof",       "ferror",      "fflush",    "ffs",      "ffsl",
    "ffsll",      "fgetc",       "fgetpos",   "fgets",    "fileno",
    "floor",      "fma",         "fmax",      "fmin",     "fmod",
    "fopen",      "fork",        "fprintf",   "fputc",    "fputs",
    "fread",      "free",        "freopen",   "frexp",    "fscanf",
    "fseek",      "fsetpos",     "ftell",     "fwrite",   "gamma",
    "getc",       "getchar",     "getdelim",  "getenv",   "getline",
    "gets",       "getw",        "gmtime",    "hypot",    "imaxabs",
    "imaxdiv",    "index",       "isalnum",   "isalpha",  "isascii",
    "isatty",     "isblank",     "iscntrl",   "isdigit",  "isfinite",
    "isgraph",    "isinf",       "islower",   "isnan",    "isnormal",
    "isprint",    "ispunct",     "isspace",   "isupper",  "isxdigit",
    "j0",         "j1",          "jn",        "jrand48",  "kill",
    "labs",       "ldexp",       "ldiv",      "lgamma",   "link",
    "llabs",      "lldiv",       "localtime", "log",      "log10",
    "log1p",      "log2",        "logb",      "longjmp",  "lrand48",
    "lrint",      "lround",      "malloc",    "mblen",    "mbtowc",
    "memccpy",    "memchr",      "memcmp",    "memcpy",   "memmem",
    "memmove",    "mempcpy",     "memset",    "mktime",   "modf",
    "mrand48",    "nan",         "nearbyint", "nice",     "on_exit",
    "open",       "pause",       "pclose",    "perror",   "pipe",
    "popen",      "pow",         "printf",    "putc",     "putchar",
    "putenv",     "puts",        "putw",      "qsort",    "raise",
    "rand",       "rand_r",      "random",    "read",     "realloc",
    "remove",     "remquo",      "rename",    "rewind",   "rindex",
    "rint",       "round",       "sbrk",      "scalb",    "scalbn",
    "scanf",      "seed48",      "setbuf",    "setenv",   "setjmp",
    "setstate",   "setvbuf",     "signal",    "signbit",  "significand",
    "sin",        "sinh",        "sleep",     "snprintf", "sprintf",
    "sqrt",       "srand",       "srand48",   "srandom",  "sscanf",
    "stderr",     "stdin",       "stdout",    "stpcpy",   "stpncpy",
    "strcasecmp", "strcat",      "strchr",    "strcmp",   "strcoll",
    "strcpy",     "strcspn",     "strdup",    "strerror", "strfry",
    "strlen",     "strncasecmp", "strncat",   "strncmp",  "strncpy",
    "strndup",    "strnlen",     "strpbrk",   "strrchr",  "strsep",
    "strsignal",  "strspn",      "strstr",    "strtod",   "strtof",
    "strtok",     "strtol",      "strtold",   "strtoll",  "strtoul",
    "strtoull",   "strxfrm",     "swab",      "sync",     "system",
    "tan",        "tanh",        "tempnam",   "tgamma",   "time",
    "timezone",   "tmpfile",     "tmpnam",    "toascii",  "tolower",
    "toupper",    "trunc",       "tzname",    "tzset",    "unlink",
    "unsetenv",   "usleep",      "vfork",     "vfprintf", "vprintf",
    "vsnprintf",  "vsprintf",    "wait",      "wcscpy",   "wcslen",
    "write",      "y0",          "y1",        "yn"};

}  // namespace

bool FindHeaderType(std::string_view name, CIntType& type) {
  const auto found = std::find_if(kHeaderTypes.begin(), kHeaderTypes.end(),
                                  [&](const HeaderType& entry) { return entry.name == name; });
  if (found == kHeaderTypes.end()) return false;
  type = found->type;
  return true;
}

bool FindHeaderConstant(std::string_view name, CIntType& type, int64_t& value) {
  type = kCInt;
  if (name == "true" || name == "false") {
    value = name == "true";
    return true;
  }
  if (name == "CHAR_BIT") {
    value = 8;
    return true;
  }
  const bool is_max = name.ends_with("_MAX");
  if (!is_max && !name.ends_with("_MIN")) return false;
  const std::string_view prefix = name.substr(0, name.size() - 4);
  for (const HeaderType& entry : kLimits) {
    if (entry.name != prefix) continue;
    if (!is_max && !entry.type.is_signed) return false;
    value = is_max ? HighestOf(entry.type) : LowestOf(entry.type);
    type = Promoted(entry.type);
    return true;
  }
  return false;
}

bool FindBuiltin(std::string_view name, CBuiltin& builtin, CIntType& argument) {
  for (const BuiltinName& entry : kBuiltins) {
    if (entry.name != name) continue;
    builtin = entry.builtin;
    argument = entry.argument;
    return true;
  }
  return false;
}

bool IsBuiltin(std::string_view name) {
  CBuiltin builtin;
  CIntType argument;
  return FindBuiltin(name, builtin, argument);
}

bool IsHeaderName(std::string_view name) {
  CIntType type;
  int64_t value = 0;
  return name == "NULL" || FindHeaderType(name, type) || FindHeaderConstant(name, type, value);
}

bool IsLibraryName(std::string_view name) {
  if (IsBuiltin(name)) return true;
  return std::binary_search(kLibraryNames.begin(), kLibraryNames.end(), name);
}

}  // namespace tidemill
