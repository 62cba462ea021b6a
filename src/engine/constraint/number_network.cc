#include "engine/constraint/number_network.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace tidemill {
namespace {

constexpr size_t kWholeDigits = 15;
constexpr size_t kPartDigits = 12;
constexpr size_t kExactDigits = 15;   // that every reader keeps apart
constexpr size_t kBoundDigits = 400;  // of a bound that is written out
constexpr size_t kMultipleDigits = 12;
constexpr uint64_t kManyMultiples = 10'000;

uint8_t Digit(int digit) {
  return static_cast<uint8_t>('0' + digit);
}

// Which side of its bounds a number is still at with the digits so far: at the least, at the most.
struct Tight {
  bool least = false, most = false;
  auto operator<=>(const Tight&) const = default;
};

// What a number is a multiple of: `units` of the last of `places` digits behind the point. It keeps
// the remainder of the digits so far.
class Divisor {
 public:
  Divisor() = default;
  Divisor(uint64_t units, size_t places) : units_(units), places_(places) {}

  uint64_t units() const { return units_; }
  size_t places() const { return places_; }

  uint64_t Behind(uint64_t rest, int digit, size_t left) const {
    return (rest * 10 + static_cast<uint64_t>(digit)) % Period(left);
  }
  // Whether some `left` digits make it a multiple.
  bool MayFit(uint64_t rest, size_t left) const {
    return left > kMultipleDigits || Missing(rest, left) < Power(left);
  }
  // Whether it is one with zeros for the digits that are left.
  bool Fits(uint64_t rest, size_t left) const { return Missing(rest, left) == 0; }

 private:
  static uint64_t Power(size_t exponent) {
    uint64_t power = 1;
    for (size_t i = 0; i < std::min(exponent, kMultipleDigits + 1); ++i) power *= 10;
    return power;
  }
  // Remainders that are the same by this are the same for so many digits more.
  uint64_t Period(size_t left) const { return units_ / std::gcd(units_, Power(left)); }
  uint64_t Missing(uint64_t rest, size_t left) const {
    const uint64_t power = Power(left) % units_;
    const auto product = static_cast<unsigned __int128>(rest) * power;
    return (units_ - static_cast<uint64_t>(product % units_)) % units_;
  }

  uint64_t units_ = 1;
  size_t places_ = 0;
};

// The digits of a bound that count, up to so many behind its point.
size_t ExactDigits(const DecimalText& size, size_t places) {
  if (size.whole != "0") return size.whole.size() + places;
  const size_t zeros = std::min(size.part.find_first_not_of('0'), size.part.size());
  return places > zeros ? places - zeros : 0;
}

// Numbers between two bounds, none negative.
class DecimalWriter {
 public:
  DecimalWriter(NetworkBuilder& builder, const NumberBound& least,
                const std::optional<NumberBound>& most, const std::optional<Divisor>& divisor,
                bool integer, NetworkState to)
      : builder_(builder),
        least_(least),
        most_(most),
        divisor_(divisor),
        integer_(integer),
        to_(to) {}

  // Those with so many digits before the point.
  void Write(NetworkState from, size_t digits) {
    digits_ = digits;
    Whole(from, 0,
          {.least = digits == least_.size.whole.size(),
           .most = most_ && digits == most_->size.whole.size()},
          0);
  }

 private:
  static int DigitOf(const std::string& text, size_t at) {
    return at < text.size() ? text[at] - '0' : 0;
  }

  struct Choice {
    Tight tight{};
    int first = 0;            // the least digit
    int least = 0, most = 0;  // the bounds' digits
    bool only_bounds = false;
  };
  // The digits that may follow, each with what it is tight to.
  template <typename Go>
  void Digits(NetworkState from, const Choice& choice, const Go& go) {
    const Tight tight = choice.tight;
    const int low = tight.least ? std::max(choice.first, choice.least) : choice.first;
    const int high = tight.most ? choice.most : 9;
    const auto behind = [&](int digit) {
      return Tight{.least = tight.least && digit == choice.least,
                   .most = tight.most && digit == choice.most};
    };
    for (int digit = low; digit <= high;) {
      const Tight next = behind(digit);
      int last = digit;  // digits that are tight to nothing go the same way
      while (!divisor_ && last < high && next == Tight{} && behind(last + 1) == Tight{}) ++last;
      const bool left_out = choice.only_bounds && next == Tight{};
      const NetworkState to = left_out ? -1 : go(next, digit);
      if (to >= 0) builder_.Bytes(from, Digit(digit), Digit(last), to);
      digit = last + 1;
    }
  }

  // Where nothing but a remainder counts, numbers of all lengths go the same way.
  size_t Length(Tight tight) const { return divisor_ && tight == Tight{} ? 0 : digits_; }
  size_t Places() const { return divisor_ ? divisor_->places() : 0; }

  void Whole(NetworkState from, size_t at, Tight tight, uint64_t rest) {
    if (builder_.full()) return;
    if (at == digits_) {
      if (MayEnd(tight, 0, rest)) builder_.Free(from, to_);
      if (!integer_ && PartGoesOn(0, tight)) {
        builder_.Bytes(from, '.', '.', PartState(0, tight, rest));
      }
      return;
    }
    const size_t left = digits_ - at - 1;
    const Choice choice{.tight = tight,
                        .first = at == 0 && digits_ > 1 ? 1 : 0,
                        .least = DigitOf(least_.size.whole, at),
                        .most = most_ ? DigitOf(most_->size.whole, at) : 9};
    Digits(from, choice, [&](Tight next, int digit) -> NetworkState {
      uint64_t behind = 0;
      if (divisor_) {
        behind = divisor_->Behind(rest, digit, left + Places());
        if (!divisor_->MayFit(behind, left + Places())) return -1;
      }
      const auto [it, added] = whole_.try_emplace({Length(next), left, next, behind}, -1);
      if (!added) return it->second;
      const NetworkState state = it->second = builder_.NewState();
      Whole(state, at + 1, next, behind);
      return state;
    });
  }

  // Behind the point and `at` digits.
  NetworkState PartState(size_t at, Tight tight, uint64_t rest) {
    const auto [it, added] = part_.try_emplace({Length(tight), at, tight, rest}, -1);
    if (!added) return it->second;
    const NetworkState state = it->second = builder_.NewState();
    if (builder_.full()) return state;
    if (at > 0 && MayEnd(tight, at, rest)) builder_.Free(state, to_);
    if (!PartGoesOn(at, tight)) return state;
    const Choice choice{.tight = tight,
                        .least = DigitOf(least_.size.part, at),
                        .most = most_ ? DigitOf(most_->size.part, at) : 9,
                        .only_bounds = !divisor_ && at >= FreeDigits() && !Exact(at + 1, tight)};
    Digits(state, choice, [&](Tight next, int digit) -> NetworkState {
      uint64_t behind = 0;
      if (divisor_) {
        behind = divisor_->Behind(rest, digit, Places() - at - 1);
        if (!divisor_->MayFit(behind, Places() - at - 1)) return -1;
      }
      return PartState(at + 1, next, behind);
    });
    return state;
  }

  // Digits behind the point whatever the bounds are.
  size_t FreeDigits() const {
    return digits_ >= kExactDigits ? 0 : std::min(kPartDigits, kExactDigits - digits_);
  }

  // A number goes on behind the point as far as its bound does, and a digit more.
  bool PartGoesOn(size_t at, Tight tight) const {
    if (divisor_) return at < Places();
    const auto reaches = [&](const NumberBound& bound) {
      return at < bound.size.part.size() ||
             (at == bound.size.part.size() && ExactDigits(bound.size, at) < kExactDigits);
    };
    return at < FreeDigits() || (tight.least && reaches(least_)) || (tight.most && reaches(*most_));
  }

  // Whether readers keep apart all numbers with so many digits behind the point.
  bool Exact(size_t places, Tight tight) const {
    return (!tight.least || ExactDigits(least_.size, places) <= kExactDigits) &&
           (!tight.most || ExactDigits(most_->size, places) <= kExactDigits);
  }

  // Whether the number so far, with `at` digits behind the point, is within the bounds.
  bool MayEnd(Tight tight, size_t at, uint64_t rest) const {
    if (divisor_ && !divisor_->Fits(rest, Places() - at)) return false;
    if (tight.least && (least_.size.part.size() > at || least_.exclusive)) return false;
    if (tight.most && most_->size.part.size() <= at && most_->exclusive) return false;
    return true;
  }

  NetworkBuilder& builder_;
  const NumberBound least_;
  const std::optional<NumberBound> most_;
  const std::optional<Divisor> divisor_;
  const bool integer_;
  const NetworkState to_;
  size_t digits_ = 0;
  // By the length, the digits that are left or those behind the point, and the remainder.
  std::map<std::tuple<size_t, size_t, Tight, uint64_t>, NetworkState> whole_, part_;
};

// The most digits before the point.
size_t Longest(const NumberBound& least, const std::optional<NumberBound>& most,
               const std::optional<Divisor>& divisor) {
  size_t longest = kWholeDigits;
  if (divisor && divisor->units() > kManyMultiples) {
    longest = std::min(longest, std::to_string(divisor->units()).size() + 2);
  }
  longest = std::max(longest, least.size.whole.size() + (least.size.whole.size() < 30 ? 1 : 0));
  return most ? std::min(longest, most->size.whole.size()) : longest;
}

void AddSizes(NetworkBuilder& builder, NetworkState from, const NumberBound& least,
              const std::optional<NumberBound>& most, const std::optional<Divisor>& divisor,
              bool integer, NetworkState to) {
  DecimalWriter writer(builder, least, most, divisor, integer, to);
  const size_t longest = Longest(least, most, divisor);
  for (size_t digits = least.size.whole.size(); digits <= longest; ++digits) {
    const NetworkState start = builder.NewState();
    builder.Free(from, start);
    writer.Write(start, digits);
  }
}

Result<std::optional<Divisor>> DivisorOf(const NumberUse& use) {
  if (!use.multiple) return std::optional<Divisor>();
  const DecimalText& size = use.multiple->size;
  const std::string digits = size.whole == "0" ? size.part : size.whole + size.part;
  const size_t first = digits.find_first_not_of('0');
  if (use.multiple->negative || first == std::string::npos) {
    return Invalid("\"multipleOf\" must be above zero");
  }
  if (digits.size() - first > kMultipleDigits || size.part.size() > kMultipleDigits) {
    return Invalid("\"multipleOf\" of more than " + std::to_string(kMultipleDigits) +
                   " digits is not supported");
  }
  uint64_t units = std::stoull(digits);
  size_t places = size.part.size();
  if (use.integer) {  // whole multiples of a part are multiples of its numerator
    for (; places > 0; --places) {
      if (units % 2 == 0) units /= 2;
      if (units % 5 == 0) units /= 5;
    }
  }
  return std::optional<Divisor>(Divisor(units, places));
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

Status AddNumber(NetworkBuilder& builder, NetworkState from, const NumberUse& use,
                 NetworkState to) {
  TM_ASSIGN_OR_RETURN(const std::optional<Divisor> divisor, DivisorOf(use));
  if (!use.least && !use.most && !divisor) {
    AddAnyNumber(builder, from, use.integer, to);
    return Ok();
  }
  const bool least_negative = !use.least || use.least->negative;
  const bool most_negative = use.most && use.most->negative;
  static const NumberBound kZero{}, kAboveZero{.exclusive = true};
  if (!most_negative) {
    AddSizes(builder, from, least_negative ? kZero : *use.least, use.most, divisor, use.integer,
             to);
  }
  if (!least_negative) return Ok();
  const NetworkState minus = builder.NewState();
  builder.Bytes(from, '-', '-', minus);
  AddSizes(builder, minus, most_negative ? *use.most : kAboveZero, use.least, divisor, use.integer,
           to);
  return Ok();
}

}  // namespace tidemill
