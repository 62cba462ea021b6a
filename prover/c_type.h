// Types of the C subset on LP64 (int 32 bits, long and pointers 64 bits, two's complement, plain
// char signed), and exact arithmetic on them. A value of any type is an int64_t in canonical form:
// sign- or zero-extended as its type says; an unsigned 64-bit value by its bits.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

struct CIntType {
  uint8_t bits = 32;  // 8, 16, 32 or 64
  bool is_signed = true;
  bool is_bool = false;

  bool operator==(const CIntType&) const = default;
};

inline constexpr CIntType kCInt{32, true, false};
inline constexpr CIntType kCUnsigned{32, false, false};
inline constexpr CIntType kCLong{64, true, false};
inline constexpr CIntType kCUnsignedLong{64, false, false};
inline constexpr CIntType kCBool{8, false, true};

// Integer promotion, and the usual arithmetic conversions.
CIntType Promoted(CIntType type);
CIntType CommonType(CIntType a, CIntType b);

// The value converted to the type: modulo 2^bits, as gcc and clang define it for signed types.
int64_t ConvertedTo(CIntType type, int64_t value);

int64_t LowestOf(CIntType type);
// Of an unsigned 64-bit type: its bits, that is -1.
int64_t HighestOf(CIntType type);

// An integer, an array of integers or a pointer to either. Arrays have the length of each
// dimension, outermost first; a pointer has those of what it points to.
struct CType {
  enum class Kind : uint8_t { kVoid, kInt, kPointer, kArray };
  Kind kind = Kind::kInt;
  CIntType base = kCInt;
  std::vector<uint32_t> dims = {};

  bool operator==(const CType&) const = default;
  bool is_int() const { return kind == Kind::kInt; }
  bool is_pointer() const { return kind == Kind::kPointer; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_void() const { return kind == Kind::kVoid; }
};

inline CType IntType(CIntType base) {
  return {CType::Kind::kInt, base, {}};
}

// Integers the type holds: the product of the dimensions; of a pointer, those of what it points to.
uint64_t CellsOf(const CType& type);
// sizeof
uint64_t SizeOf(const CType& type);
// The type of an array's elements, or of a pointer's target.
CType ElementOf(const CType& type);
// An array as a pointer to its first element.
CType Decayed(const CType& type);
// "unsigned int", "int[3][4]", "char*".
std::string TypeText(const CType& type);

enum class COp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kRem,
  kShl,
  kShr,
  kAnd,
  kOr,
  kXor,
  kLt,
  kLe,
  kGt,
  kGe,
  kEq,
  kNe  //
};

// Why a program has no meaning on an input.
enum class CUndefined : uint8_t {
  kNone,
  kOverflow,
  kDivisionByZero,
  kShiftCount,
  kShiftNegative,
  kShiftOverflow,
  kBounds,
  kPointer,
  kUninitialised,
  kNoReturn,
  kConstant,
  kBitsOfZero,
};

// "signed integer overflow", "division by zero", ..
std::string_view UndefinedText(CUndefined undefined);

// One operator on operands of one of the four types that arithmetic has after promotion. Of a shift
// `right` may be of another type. A comparison gives 0 or 1.
template <COp op, int bits, bool is_signed>
inline CUndefined Apply(int64_t left, int64_t right, int64_t& out) {
  using Signed = std::conditional_t<bits == 32, int32_t, int64_t>;
  using Unsigned = std::make_unsigned_t<Signed>;
  using Value = std::conditional_t<is_signed, Signed, Unsigned>;
  const auto l = static_cast<Value>(left);
  const auto r = static_cast<Value>(right);
  const auto put = [&out](auto value) {
    out = static_cast<int64_t>(static_cast<Value>(value));
    return CUndefined::kNone;
  };
  if constexpr (op == COp::kAdd || op == COp::kSub || op == COp::kMul) {
    Value value;
    bool overflow;
    if constexpr (op == COp::kAdd) overflow = __builtin_add_overflow(l, r, &value);
    if constexpr (op == COp::kSub) overflow = __builtin_sub_overflow(l, r, &value);
    if constexpr (op == COp::kMul) overflow = __builtin_mul_overflow(l, r, &value);
    if (is_signed && overflow) return CUndefined::kOverflow;
    return put(value);
  } else if constexpr (op == COp::kDiv || op == COp::kRem) {
    if (r == 0) return CUndefined::kDivisionByZero;
    if (is_signed && l == std::numeric_limits<Value>::min() && r == static_cast<Value>(-1)) {
      return CUndefined::kOverflow;
    }
    return put(op == COp::kDiv ? l / r : l % r);
  } else if constexpr (op == COp::kShl) {
    if (static_cast<uint64_t>(right) >= bits) return CUndefined::kShiftCount;
    if (is_signed && left < 0) return CUndefined::kShiftNegative;
    if (is_signed && l > (std::numeric_limits<Value>::max() >> right)) {
      return CUndefined::kShiftOverflow;
    }
    return put(static_cast<Unsigned>(l) << right);
  } else if constexpr (op == COp::kShr) {
    if (static_cast<uint64_t>(right) >= bits) return CUndefined::kShiftCount;
    return put(l >> right);
  } else if constexpr (op == COp::kAnd || op == COp::kOr || op == COp::kXor) {
    out = op == COp::kAnd ? left & right : op == COp::kOr ? left | right : left ^ right;
    return CUndefined::kNone;
  } else {
    out = op == COp::kLt   ? l < r
          : op == COp::kLe ? l <= r
          : op == COp::kGt ? l > r
          : op == COp::kGe ? l >= r
          : op == COp::kEq ? l == r
                           : l != r;
    return CUndefined::kNone;
  }
}

// The same where operator and type are known only at run time.
CUndefined ApplyOp(COp op, CIntType type, int64_t left, int64_t right, int64_t& out);

// Functions of the C library and the compiler that have a meaning of their own here.
enum class CBuiltin : uint8_t {
  kAbs,
  kPopcount,
  kParity,
  kClz,
  kCtz,
  kFfs,
  kMemset,
  kMemcpy,
  kUnreachable  //
};

// A builtin of one integer of the given width (abs of an int, clz of an unsigned long ..).
CUndefined ApplyBuiltin(CBuiltin builtin, int bits, int64_t value, int64_t& out);

}  // namespace tidemill
