#include "engine/constraint/number_network.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

namespace tidemill {
namespace {

constexpr size_t kWholeDigits = 15;
constexpr size_t kPartDigits = 12;
constexpr size_t kBoundDigits = 400;  // of a bound that is written out

uint8_t Digit(int digit) {
  return static_cast<uint8_t>('0' + digit);
}

// Which side of its bounds a number is still at with the digits so far: at the least, at the most.
struct Tight {
  bool least = false, most = false;
  auto operator<=>(const Tight&) const = default;
};

// Numbers of one number of digits before the point, none negative.
class DecimalWriter {
 public:
  DecimalWriter(NetworkBuilder& builder, const NumberBound& least,
                const std::optional<NumberBound>& most, bool integer, NetworkState to)
      : builder_(builder), least_(least), most_(most), integer_(integer), to_(to) {}

  void Write(NetworkState from, size_t digits) {
    digits_ = digits;
    whole_.clear();
    part_.clear();
    Whole(from, 0,
          {.least = digits == least_.size.whole.size(),
           .most = most_ && digits == most_->size.whole.size()});
  }

 private:
  static int DigitOf(const std::string& text, size_t at) {
    return at < text.size() ? text[at] - '0' : 0;
  }

  // The digits that may follow, each with what it is tight to.
  template <typename Go>
  void Digits(NetworkState from, Tight tight, int first, int least, int most, const Go& go) {
    const int low = tight.least ? std::max(first, least) : first;
    const int high = tight.most ? most : 9;
    for (int digit = low; digit <= high;) {
      const Tight next{.least = tight.least && digit == least, .most = tight.most && digit == most};
      int last = digit;  // digits that are tight to nothing go the same way
      if (next == Tight{}) {
        while (last < high && !(tight.least && last + 1 == least) &&
               !(tight.most && last + 1 == most)) {
          ++last;
        }
      }
      builder_.Bytes(from, Digit(digit), Digit(last), go(next));
      digit = last + 1;
    }
  }

  void Whole(NetworkState from, size_t at, Tight tight) {
    if (builder_.full()) return;
    if (at == digits_) {
      if (MayEnd(tight, 0)) builder_.Free(from, to_);
      if (integer_) return;
      const NetworkState point = PartState(0, tight);
      builder_.Bytes(from, '.', '.', point);
      return;
    }
    const int first = at == 0 && digits_ > 1 ? 1 : 0;
    Digits(from, tight, first, DigitOf(least_.size.whole, at),
           most_ ? DigitOf(most_->size.whole, at) : 9, [&](Tight next) {
             const auto key = std::pair(at + 1, next);
             const auto known = whole_.find(key);
             if (known != whole_.end()) return known->second;
             const NetworkState state = builder_.NewState();
             whole_.emplace(key, state);
             Whole(state, at + 1, next);
             return state;
           });
  }

  // Behind the point and `at` digits.
  NetworkState PartState(size_t at, Tight tight) {
    const auto key = std::pair(at, tight);
    const auto known = part_.find(key);
    if (known != part_.end()) return known->second;
    const NetworkState state = builder_.NewState();
    part_.emplace(key, state);
    if (builder_.full()) return state;
    if (at > 0 && MayEnd(tight, at)) builder_.Free(state, to_);
    size_t most_digits = kPartDigits;
    most_digits = std::max(most_digits, least_.size.part.size() + 2);
    if (most_) most_digits = std::max(most_digits, most_->size.part.size() + 2);
    if (at == most_digits) return state;
    Digits(state, tight, 0, DigitOf(least_.size.part, at),
           most_ ? DigitOf(most_->size.part, at) : 9,
           [&](Tight next) { return PartState(at + 1, next); });
    return state;
  }

  // Whether the number so far, with `at` digits behind the point, is within the bounds.
  bool MayEnd(Tight tight, size_t at) const {
    if (tight.least && (least_.size.part.size() > at || least_.exclusive)) return false;
    if (tight.most && most_->size.part.size() <= at && most_->exclusive) return false;
    return true;
  }

  NetworkBuilder& builder_;
  const NumberBound least_;
  const std::optional<NumberBound> most_;
  const bool integer_;
  const NetworkState to_;
  size_t digits_ = 0;
  std::map<std::pair<size_t, Tight>, NetworkState> whole_, part_;
};

void AddSizes(NetworkBuilder& builder, NetworkState from, const NumberBound& least,
              const std::optional<NumberBound>& most, bool integer, NetworkState to) {
  DecimalWriter writer(builder, least, most, integer, to);
  const size_t longest = most ? std::min(kWholeDigits, most->size.whole.size()) : kWholeDigits;
  for (size_t digits = least.size.whole.size(); digits <= longest; ++digits) {
    const NetworkState start = builder.NewState();
    builder.Free(from, start);
    writer.Write(start, digits);
  }
}

// At most `count` digits, at least one.
void AddDigits(NetworkBuilder& builder, NetworkState from, size_t count, NetworkState to) {
  for (size_t i = 0; i < count; ++i) {
    const NetworkState next = builder.NewState();
    builder.Bytes(from, '0', '9', next);
    builder.Free(next, to);
    from = next;
  }
}

void AddExponent(NetworkBuilder& builder, NetworkState from, NetworkState to) {
  const NetworkState sign = builder.NewState(), digits = builder.NewState();
  builder.Bytes(from, 'e', 'e', sign);
  builder.Bytes(from, 'E', 'E', sign);
  builder.Bytes(sign, '+', '+', digits);
  builder.Bytes(sign, '-', '-', digits);
  builder.Free(sign, digits);
  AddDigits(builder, digits, 2, to);
}

void AddAnyNumber(NetworkBuilder& builder, NetworkState from, bool integer, NetworkState to) {
  const NetworkState size = builder.NewState(), whole = builder.NewState();
  builder.Free(from, size);
  builder.Bytes(from, '-', '-', size);
  builder.Bytes(size, '0', '0', whole);
  NetworkState digit = builder.NewState();
  builder.Bytes(size, '1', '9', digit);
  builder.Free(digit, whole);
  AddDigits(builder, digit, kWholeDigits - 1, whole);
  builder.Free(whole, to);
  if (integer) return;
  const NetworkState point = builder.NewState(), part = builder.NewState();
  builder.Bytes(whole, '.', '.', point);
  AddDigits(builder, point, kPartDigits, part);
  builder.Free(part, to);
  AddExponent(builder, part, to);
  AddExponent(builder, whole, to);
}

}  // namespace

NumberBound ReadBound(const std::string& text, bool exclusive) {
  NumberBound bound{.exclusive = exclusive};
  size_t at = 0;
  if (at < text.size() && text[at] == '-') bound.negative = true, ++at;
  std::string digits;
  long point = -1, exponent = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '.') {
      point = static_cast<long>(digits.size());
    } else if (text[at] == 'e' || text[at] == 'E') {
      exponent = std::strtol(text.c_str() + at + 1, nullptr, 10);
      break;
    } else {
      digits.push_back(text[at]);
    }
  }
  if (point < 0) point = static_cast<long>(digits.size());
  const long limit = static_cast<long>(kBoundDigits);
  point = std::clamp(point + exponent, -limit, limit);
  if (point < 0) {
    digits.insert(0, static_cast<size_t>(-point), '0');
    point = 0;
  }
  if (static_cast<size_t>(point) > digits.size()) digits.resize(static_cast<size_t>(point), '0');
  std::string whole = digits.substr(0, static_cast<size_t>(point));
  std::string part = digits.substr(static_cast<size_t>(point));
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  while (!part.empty() && part.back() == '0') part.pop_back();
  bound.size = {.whole = whole.empty() ? "0" : whole, .part = part};
  if (bound.size.IsZero()) bound.negative = false;
  return bound;
}

void AddNumber(NetworkBuilder& builder, NetworkState from, const NumberUse& use, NetworkState to) {
  if (!use.least && !use.most) return AddAnyNumber(builder, from, use.integer, to);
  const bool least_negative = !use.least || use.least->negative;
  const bool most_negative = use.most && use.most->negative;
  static const NumberBound kZero{}, kAboveZero{.exclusive = true};
  if (!most_negative) {
    AddSizes(builder, from, least_negative ? kZero : *use.least, use.most, use.integer, to);
  }
  if (!least_negative) return;
  const NetworkState minus = builder.NewState();
  builder.Bytes(from, '-', '-', minus);
  std::optional<NumberBound> most = use.least;
  AddSizes(builder, minus, most_negative ? *use.most : kAboveZero, most, use.integer, to);
}

}  // namespace tidemill
