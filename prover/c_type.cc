#include "prover/c_type.h"

#include <bit>
#include <type_traits>

namespace tidemill {
namespace {

template <COp op>
CUndefined ApplyTo(CIntType type, int64_t left, int64_t right, int64_t& out) {
  if (type.bits == 64) {
    return type.is_signed ? Apply<op, 64, true>(left, right, out)
                          : Apply<op, 64, false>(left, right, out);
  }
  return type.is_signed ? Apply<op, 32, true>(left, right, out)
                        : Apply<op, 32, false>(left, right, out);
}

}  // namespace

CIntType Promoted(CIntType type) {
  return type.bits < 32 ? kCInt : type;
}

CIntType CommonType(CIntType a, CIntType b) {
  a = Promoted(a);
  b = Promoted(b);
  if (a.bits != b.bits) return a.bits > b.bits ? a : b;
  return a.is_signed ? b : a;
}

int64_t ConvertedTo(CIntType type, int64_t value) {
  if (type.is_bool) return value != 0;
  switch (type.bits) {
    case 8:
      return type.is_signed ? int64_t{static_cast<int8_t>(value)} : static_cast<uint8_t>(value);
    case 16:
      return type.is_signed ? int64_t{static_cast<int16_t>(value)} : static_cast<uint16_t>(value);
    case 32:
      return type.is_signed ? int64_t{static_cast<int32_t>(value)} : static_cast<uint32_t>(value);
    default:
      return value;
  }
}

int64_t LowestOf(CIntType type) {
  if (!type.is_signed) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - type.bits);
}

int64_t HighestOf(CIntType type) {
  if (type.is_bool) return 1;
  if (type.is_signed) return std::numeric_limits<int64_t>::max() >> (64 - type.bits);
  return static_cast<int64_t>(~uint64_t{0} >> (64 - type.bits));
}

uint64_t CellsOf(const CType& type) {
  uint64_t cells = 1;
  for (const uint32_t dim : type.dims) cells *= dim;
  return cells;
}

uint64_t SizeOf(const CType& type) {
  if (type.is_pointer()) return 8;
  if (type.is_void()) return 1;
  return CellsOf(type) * type.base.bits / 8;
}

CType ElementOf(const CType& type) {
  if (type.is_pointer()) {
    return {type.dims.empty() ? CType::Kind::kInt : CType::Kind::kArray, type.base, type.dims};
  }
  CType element = type;
  element.dims.erase(element.dims.begin());
  element.kind = element.dims.empty() ? CType::Kind::kInt : CType::Kind::kArray;
  return element;
}

CType Decayed(const CType& type) {
  if (!type.is_array()) return type;
  CType pointer = ElementOf(type);
  pointer.kind = CType::Kind::kPointer;
  return pointer;
}

std::string TypeText(const CType& type) {
  if (type.is_void()) return "void";
  std::string text;
  if (type.base.is_bool) {
    text = "_Bool";
  } else {
    if (!type.base.is_signed) text = "unsigned ";
    if (type.base.bits == 8 && type.base.is_signed) text = "signed ";
    text += type.base.bits == 8    ? "char"
            : type.base.bits == 16 ? "short"
            : type.base.bits == 32 ? "int"
                                   : "long";
  }
  if (type.is_pointer()) text += type.dims.empty() ? "*" : "(*)";
  for (const uint32_t dim : type.dims) text += "[" + std::to_string(dim) + "]";
  return text;
}

std::string_view UndefinedText(CUndefined undefined) {
  switch (undefined) {
    case CUndefined::kNone:
      return "nothing undefined";
    case CUndefined::kOverflow:
      return "signed integer overflow";
    case CUndefined::kDivisionByZero:
      return "division by zero";
    case CUndefined::kShiftCount:
      return "shift by a negative count or by the width of the type or more";
    case CUndefined::kShiftNegative:
      return "left shift of a negative value";
    case CUndefined::kShiftOverflow:
      return "left shift whose result the type cannot hold";
    case CUndefined::kBounds:
      return "access outside an array";
    case CUndefined::kPointer:
      return "invalid pointer";
    case CUndefined::kUninitialised:
      return "use of an uninitialised value";
    case CUndefined::kNoReturn:
      return "end of the function reached without return";
    case CUndefined::kConstant:
      return "write to a constant";
    case CUndefined::kBitsOfZero:
      return "__builtin_clz or __builtin_ctz of 0, or __builtin_unreachable";
  }
  return "undefined behaviour";
}

CUndefined ApplyOp(COp op, CIntType type, int64_t left, int64_t right, int64_t& out) {
  switch (op) {
    case COp::kAdd:
      return ApplyTo<COp::kAdd>(type, left, right, out);
    case COp::kSub:
      return ApplyTo<COp::kSub>(type, left, right, out);
    case COp::kMul:
      return ApplyTo<COp::kMul>(type, left, right, out);
    case COp::kDiv:
      return ApplyTo<COp::kDiv>(type, left, right, out);
    case COp::kRem:
      return ApplyTo<COp::kRem>(type, left, right, out);
    case COp::kShl:
      return ApplyTo<COp::kShl>(type, left, right, out);
    case COp::kShr:
      return ApplyTo<COp::kShr>(type, left, right, out);
    case COp::kAnd:
      return ApplyTo<COp::kAnd>(type, left, right, out);
    case COp::kOr:
      return ApplyTo<COp::kOr>(type, left, right, out);
    case COp::kXor:
      return ApplyTo<COp::kXor>(type, left, right, out);
    case COp::kLt:
      return ApplyTo<COp::kLt>(type, left, right, out);
    case COp::kLe:
      return ApplyTo<COp::kLe>(type, left, right, out);
    case COp::kGt:
      return ApplyTo<COp::kGt>(type, left, right, out);
    case COp::kGe:
      return ApplyTo<COp::kGe>(type, left, right, out);
    case COp::kEq:
      return ApplyTo<COp::kEq>(type, left, right, out);
    case COp::kNe:
      return ApplyTo<COp::kNe>(type, left, right, out);
  }
  return CUndefined::kNone;
}

CUndefined ApplyBuiltin(CBuiltin builtin, int bits, int64_t value, int64_t& out) {
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t unsigned_value = static_cast<uint64_t>(value) & all;
  switch (builtin) {
    case CBuiltin::kAbs:
      if (value == LowestOf({static_cast<uint8_t>(bits), true, false})) {
        return CUndefined::kOverflow;
      }
      out = value < 0 ? -value : value;
      break;
    case CBuiltin::kPopcount:
      out = std::popcount(unsigned_value);
      break;
    case CBuiltin::kParity:
      out = std::popcount(unsigned_value) & 1;
      break;
    case CBuiltin::kClz:
      if (unsigned_value == 0) return CUndefined::kBitsOfZero;
      out = std::countl_zero(unsigned_value) - (64 - bits);
      break;
    case CBuiltin::kCtz:
      if (unsigned_value == 0) return CUndefined::kBitsOfZero;
      out = std::countr_zero(unsigned_value);
      break;
    case CBuiltin::kFfs:
      out = unsigned_value == 0 ? 0 : std::countr_zero(unsigned_value) + 1;
      break;
    default:
      return CUndefined::kBitsOfZero;
  }
  return CUndefined::kNone;
}

}  // namespace tidemill
