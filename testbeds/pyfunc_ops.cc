#include "testbeds/pyfunc_ops.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>

namespace tidemill {
namespace {

using Numbers = std::vector<int64_t>;

const Numbers& List(const PyfuncValue& value) {
  return std::get<Numbers>(value);
}
const std::string& Text(const PyfuncValue& value) {
  return std::get<std::string>(value);
}

template <typename Keep>
Numbers Filtered(const PyfuncValue& value, Keep keep) {
  Numbers out;
  std::copy_if(List(value).begin(), List(value).end(), std::back_inserter(out), keep);
  return out;
}
template <typename F>
Numbers Mapped(const PyfuncValue& value, F f) {
  Numbers out;
  std::transform(List(value).begin(), List(value).end(), std::back_inserter(out), f);
  return out;
}
template <typename Keep>
std::string FilteredText(const PyfuncValue& value, Keep keep) {
  std::string out;
  std::copy_if(Text(value).begin(), Text(value).end(), std::back_inserter(out), keep);
  return out;
}
template <typename F>
std::string MappedText(const PyfuncValue& value, F f) {
  std::string out;
  for (const char c : Text(value)) out += static_cast<char>(f(static_cast<unsigned char>(c)));
  return out;
}

// Python's remainder, which has the divisor's sign.
int64_t Remainder(int64_t a, int64_t b) {
  return ((a % b) + b) % b;
}
bool IsVowel(char c) {
  return std::string_view("aeiouAEIOU").find(c) != std::string_view::npos;
}
size_t Bounded(int64_t count, size_t size) {
  return std::min(static_cast<size_t>(count), size);
}

template <typename T>
T EveryNth(const T& from, int64_t n) {
  T out;
  for (size_t i = 0; i < from.size(); i += static_cast<size_t>(n)) out.push_back(from[i]);
  return out;
}
template <typename T>
T Reversed(const T& from) {
  return T(from.rbegin(), from.rend());
}
Numbers Sorted(Numbers numbers, bool down) {
  std::sort(numbers.begin(), numbers.end());
  return down ? Reversed(numbers) : numbers;
}
Numbers Unique(const Numbers& from) {
  Numbers out;
  for (const int64_t n : from) {
    if (std::find(out.begin(), out.end(), n) == out.end()) out.push_back(n);
  }
  return out;
}
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

using V = const PyfuncValue&;
using K = int64_t;

constexpr PyfuncOp kListSteps[] = {
    {"reverse the order", "x[::-1]", 0, 0, [](V v, K) -> PyfuncValue { return Reversed(List(v)); }},
    {"sort the numbers from small to large", "sorted(x)", 0, 0,
     [](V v, K) -> PyfuncValue { return Sorted(List(v), false); }},
    {"sort the numbers from large to small", "sorted(x, reverse=True)", 0, 0,
     [](V v, K) -> PyfuncValue { return Sorted(List(v), true); }},
    {"add {} to every number", "[v + {} for v in x]", 1, 9,
     [](V v, K k) -> PyfuncValue { return Mapped(v, [k](int64_t n) { return n + k; }); }},
    {"multiply every number by {}", "[v * {} for v in x]", 2, 6,
     [](V v, K k) -> PyfuncValue { return Mapped(v, [k](int64_t n) { return n * k; }); }},
    {"square every number", "[v * v for v in x]", 0, 0,
     [](V v, K) -> PyfuncValue { return Mapped(v, [](int64_t n) { return n * n; }); }},
    {"replace every number by its absolute value", "[abs(v) for v in x]", 0, 0,
     [](V v, K) -> PyfuncValue { return Mapped(v, [](int64_t n) { return std::abs(n); }); }},
    {"replace every number by its remainder when divided by {}", "[v % {} for v in x]", 2, 9,
     [](V v, K k) -> PyfuncValue { return Mapped(v, [k](int64_t n) { return Remainder(n, k); }); }},
    {"keep only the even numbers", "[v for v in x if v % 2 == 0]", 0, 0,
     [](V v, K) -> PyfuncValue { return Filtered(v, [](int64_t n) { return n % 2 == 0; }); }},
    {"keep only the odd numbers", "[v for v in x if v % 2 != 0]", 0, 0,
     [](V v, K) -> PyfuncValue { return Filtered(v, [](int64_t n) { return n % 2 != 0; }); }},
    {"keep only the numbers greater than {}", "[v for v in x if v > {}]", -3, 8,
     [](V v, K k) -> PyfuncValue { return Filtered(v, [k](int64_t n) { return n > k; }); }},
    {"keep only the numbers smaller than {}", "[v for v in x if v < {}]", -3, 8,
     [](V v, K k) -> PyfuncValue { return Filtered(v, [k](int64_t n) { return n < k; }); }},
    {"drop the first {} numbers", "x[{}:]", 1, 3,
     [](V v, K k) -> PyfuncValue {
       return Numbers(List(v).begin() + static_cast<int64_t>(Bounded(k, List(v).size())),
                      List(v).end());
     }},
    {"take only the first {} numbers", "x[:{}]", 2, 5,
     [](V v, K k) -> PyfuncValue {
       return Numbers(List(v).begin(),
                      List(v).begin() + static_cast<int64_t>(Bounded(k, List(v).size())));
     }},
    {"take every number whose position is a multiple of {}, counting from 0", "x[::{}]", 2, 4,
     [](V v, K k) -> PyfuncValue { return EveryNth(List(v), k); }},
    {"remove repeated numbers and keep the first of each", "list(dict.fromkeys(x))", 0, 0,
     [](V v, K) -> PyfuncValue { return Unique(List(v)); }},
    {"replace every number by the sum of all numbers up to and including it",
     "[sum(x[:i + 1]) for i in range(len(x))]", 0, 0,
     [](V v, K) -> PyfuncValue {
       Numbers out(List(v).size());
       std::partial_sum(List(v).begin(), List(v).end(), out.begin());
       return out;
     }},
};

constexpr PyfuncOp kListEndings[] = {
    {"the resulting list", "x", 0, 0, [](V v, K) -> PyfuncValue { return v; }},
    {"the sum of the result", "sum(x)", 0, 0,
     [](V v, K) -> PyfuncValue {
       return std::accumulate(List(v).begin(), List(v).end(), int64_t{0});
     }},
    {"the largest number of the result, or 0 if it is empty", "max(x, default=0)", 0, 0,
     [](V v, K) -> PyfuncValue {
       return List(v).empty() ? int64_t{0} : *std::max_element(List(v).begin(), List(v).end());
     }},
    {"the smallest number of the result, or 0 if it is empty", "min(x, default=0)", 0, 0,
     [](V v, K) -> PyfuncValue {
       return List(v).empty() ? int64_t{0} : *std::min_element(List(v).begin(), List(v).end());
     }},
    {"how many numbers the result has", "len(x)", 0, 0,
     [](V v, K) -> PyfuncValue { return static_cast<int64_t>(List(v).size()); }},
    {"the first number of the result, or {} if it is empty", "x[0] if x else {}", -1, 3,
     [](V v, K k) -> PyfuncValue { return List(v).empty() ? k : List(v).front(); }},
    {"the last number of the result, or {} if it is empty", "x[-1] if x else {}", -1, 3,
     [](V v, K k) -> PyfuncValue { return List(v).empty() ? k : List(v).back(); }},
    {"whether the result contains the number {}", "{} in x", 0, 9,
     [](V v, K k) -> PyfuncValue {
       return std::find(List(v).begin(), List(v).end(), k) != List(v).end();
     }},
};

constexpr PyfuncOp kTextSteps[] = {
    {"reverse it", "x[::-1]", 0, 0, [](V v, K) -> PyfuncValue { return Reversed(Text(v)); }},
    {"make it upper case", "x.upper()", 0, 0,
     [](V v, K) -> PyfuncValue { return MappedText(v, [](int c) { return std::toupper(c); }); }},
    {"make it lower case", "x.lower()", 0, 0,
     [](V v, K) -> PyfuncValue { return MappedText(v, [](int c) { return std::tolower(c); }); }},
    {"swap upper and lower case", "x.swapcase()", 0, 0,
     [](V v, K) -> PyfuncValue {
       return MappedText(
           v, [](int c) { return std::isupper(c) != 0 ? std::tolower(c) : std::toupper(c); });
     }},
    {"remove the vowels", "''.join(c for c in x if c not in 'aeiouAEIOU')", 0, 0,
     [](V v, K) -> PyfuncValue { return FilteredText(v, [](char c) { return !IsVowel(c); }); }},
    {"keep only the vowels", "''.join(c for c in x if c in 'aeiouAEIOU')", 0, 0,
     [](V v, K) -> PyfuncValue { return FilteredText(v, IsVowel); }},
    {"remove the spaces", "x.replace(' ', '')", 0, 0,
     [](V v, K) -> PyfuncValue { return FilteredText(v, [](char c) { return c != ' '; }); }},
    {"repeat it {} times", "x * {}", 2, 4,
     [](V v, K k) -> PyfuncValue {
       std::string out;
       for (K i = 0; i < k; ++i) out += Text(v);
       return out;
     }},
    {"take only the first {} characters", "x[:{}]", 2, 9,
     [](V v, K k) -> PyfuncValue { return Text(v).substr(0, static_cast<size_t>(k)); }},
    {"drop the first {} characters", "x[{}:]", 1, 5,
     [](V v, K k) -> PyfuncValue { return Text(v).substr(Bounded(k, Text(v).size())); }},
    {"take every character whose position is a multiple of {}, counting from 0", "x[::{}]", 2, 4,
     [](V v, K k) -> PyfuncValue { return EveryNth(Text(v), k); }},
    {"sort its characters", "''.join(sorted(x))", 0, 0,
     [](V v, K) -> PyfuncValue {
       std::string out = Text(v);
       std::sort(out.begin(), out.end());
       return out;
     }},
};

constexpr PyfuncOp kTextEndings[] = {
    {"the resulting string", "x", 0, 0, [](V v, K) -> PyfuncValue { return v; }},
    {"the length of the result", "len(x)", 0, 0,
     [](V v, K) -> PyfuncValue { return static_cast<int64_t>(Text(v).size()); }},
    {"the list of words in the result", "x.split()", 0, 0,
     [](V v, K) -> PyfuncValue { return Words(Text(v)); }},
    {"the number of words in the result", "len(x.split())", 0, 0,
     [](V v, K) -> PyfuncValue { return static_cast<int64_t>(Words(Text(v)).size()); }},
    {"how many vowels the result has", "sum(c in 'aeiouAEIOU' for c in x)", 0, 0,
     [](V v, K) -> PyfuncValue {
       return static_cast<int64_t>(std::count_if(Text(v).begin(), Text(v).end(), IsVowel));
     }},
    {"how many different characters the result has", "len(set(x))", 0, 0,
     [](V v, K) -> PyfuncValue {
       return static_cast<int64_t>(std::set<char>(Text(v).begin(), Text(v).end()).size());
     }},
    {"whether the result reads the same backwards", "x == x[::-1]", 0, 0,
     [](V v, K) -> PyfuncValue { return Text(v) == Reversed(Text(v)); }},
};

template <typename T, typename F>
std::string Joined(const std::vector<T>& items, F text) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) out += (i > 0 ? ", " : "") + text(items[i]);
  return out + "]";
}

}  // namespace

std::string PyfuncLiteral(const PyfuncValue& value) {
  // Only letters and spaces come in strings: nothing needs an escape.
  const auto quoted = [](const std::string& text) { return "'" + text + "'"; };
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "True" : "False";
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  if (const auto* numbers = std::get_if<Numbers>(&value)) {
    return Joined(*numbers, [](int64_t n) { return std::to_string(n); });
  }
  return Joined(std::get<std::vector<std::string>>(value), quoted);
}

std::span<const PyfuncOp> ListSteps() {
  return kListSteps;
}
std::span<const PyfuncOp> ListEndings() {
  return kListEndings;
}
std::span<const PyfuncOp> TextSteps() {
  return kTextSteps;
}
std::span<const PyfuncOp> TextEndings() {
  return kTextEndings;
}

}  // namespace tidemill
