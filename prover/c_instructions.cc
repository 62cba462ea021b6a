#include "prover/c_instructions.h"

#include <array>
#include <utility>

namespace tidemill {
namespace {

using Step = CInstructions::Step;

constexpr size_t kOps = 16;

template <COp op, int bits, bool is_signed, bool immediate>
Step DoBinary(CMachine& m, Step i) {
  int64_t out = 0;
  const CUndefined undefined =
      Apply<op, bits, is_signed>(m.r[i->b], immediate ? i->imm : m.r[i->c], out);
  if (undefined != CUndefined::kNone) [[unlikely]]
    return m.Undefined(undefined, i);
  m.r[i->a] = out;
  return i + 1;
}

template <COp op, int bits, bool is_signed, bool immediate>
Step DoJumpCompare(CMachine& m, Step i) {
  int64_t out = 0;
  (void)Apply<op, bits, is_signed>(m.r[i->b], immediate ? i->imm : m.r[i->c], out);
  return out != 0 ? i + i->jump : i + 1;
}

// For each operator: 32 and 64 bits, signed or not, with a register or an immediate.
using Row = std::array<CHandler, 8>;

template <size_t op>
constexpr Row BinaryRow() {
  constexpr auto kOp = static_cast<COp>(op);
  return {DoBinary<kOp, 32, true, false>,  DoBinary<kOp, 32, true, true>,
          DoBinary<kOp, 32, false, false>, DoBinary<kOp, 32, false, true>,
          DoBinary<kOp, 64, true, false>,  DoBinary<kOp, 64, true, true>,
          DoBinary<kOp, 64, false, false>, DoBinary<kOp, 64, false, true>};
}

template <size_t op>
constexpr Row JumpRow() {
  constexpr auto kOp = static_cast<COp>(op);
  if constexpr (kOp < COp::kLt) {
    return {};
  } else {
    return {DoJumpCompare<kOp, 32, true, false>,  DoJumpCompare<kOp, 32, true, true>,
            DoJumpCompare<kOp, 32, false, false>, DoJumpCompare<kOp, 32, false, true>,
            DoJumpCompare<kOp, 64, true, false>,  DoJumpCompare<kOp, 64, true, true>,
            DoJumpCompare<kOp, 64, false, false>, DoJumpCompare<kOp, 64, false, true>};
  }
}

template <size_t... ops>
constexpr std::array<Row, kOps> BinaryTable(std::index_sequence<ops...>) {
  return {BinaryRow<ops>()...};
}

template <size_t... ops>
constexpr std::array<Row, kOps> JumpTable(std::index_sequence<ops...>) {
  return {JumpRow<ops>()...};
}

constexpr auto kBinaryTable = BinaryTable(std::make_index_sequence<kOps>());
constexpr auto kJumpTable = JumpTable(std::make_index_sequence<kOps>());

size_t ColumnOf(CIntType type, bool immediate) {
  return (type.bits == 64 ? 4u : 0u) + (type.is_signed ? 0u : 2u) + (immediate ? 1u : 0u);
}

template <uint8_t bits, bool is_signed, bool is_bool>
Step DoConvert(CMachine& m, Step i) {
  m.r[i->a] = ConvertedTo({bits, is_signed, is_bool}, m.r[i->b]);
  return i + 1;
}

template <int bits, bool is_signed>
Step DoNegate(CMachine& m, Step i) {
  int64_t out = 0;
  const CUndefined undefined = Apply<COp::kSub, bits, is_signed>(0, m.r[i->b], out);
  if (undefined != CUndefined::kNone) [[unlikely]]
    return m.Undefined(undefined, i);
  m.r[i->a] = out;
  return i + 1;
}

Step DoNot32(CMachine& m, Step i) {
  m.r[i->a] = static_cast<uint32_t>(~m.r[i->b]);
  return i + 1;
}

Step DoNot(CMachine& m, Step i) {
  m.r[i->a] = ~m.r[i->b];
  return i + 1;
}

// The cells that `bytes` behind a pointer are; false: the run is over, and `next` is null.
bool FindBytes(CMachine& m, Step i, int64_t pointer, uint64_t bytes, bool to_write, uint32_t& first,
               uint64_t& count) {
  const uint64_t size = static_cast<uint64_t>(i->imm) / 8;
  const CMachine::Object& object = m.ObjectOf(pointer);
  const uint64_t offset = static_cast<uint32_t>(pointer);
  count = bytes / size;
  if (pointer == 0 || offset > object.length || count > object.length - offset ||
      (count == object.length - offset && bytes % size != 0)) {
    m.Undefined(pointer == 0 ? CUndefined::kPointer : CUndefined::kBounds, i);
    return false;
  }
  if (to_write && object.is_const && bytes > 0) {
    m.Undefined(CUndefined::kConstant, i);
    return false;
  }
  if (bytes % size != 0 || (to_write && object.is_static)) {
    m.Stop(CRun::End::kUnsupported);
    return false;
  }
  first = object.base + static_cast<uint32_t>(offset);
  return true;
}

}  // namespace

CHandler CInstructions::Binary(COp op, CIntType type, bool immediate) {
  return kBinaryTable[static_cast<size_t>(op)][ColumnOf(type, immediate)];
}

CHandler CInstructions::JumpCompare(COp op, CIntType type, bool immediate) {
  return kJumpTable[static_cast<size_t>(op)][ColumnOf(type, immediate)];
}

CHandler CInstructions::Convert(CIntType from, CIntType to) {
  if (to.is_bool) return from.is_bool ? nullptr : DoConvert<8, false, true>;
  // A canonical value of 64 bits may be read with either sign.
  if (to.bits == 64) return nullptr;
  const bool holds =
      from.is_signed == to.is_signed ? from.bits <= to.bits : to.is_signed && from.bits < to.bits;
  if (holds) return nullptr;
  switch (to.bits) {
    case 8:
      return to.is_signed ? DoConvert<8, true, false> : DoConvert<8, false, false>;
    case 16:
      return to.is_signed ? DoConvert<16, true, false> : DoConvert<16, false, false>;
    default:
      return to.is_signed ? DoConvert<32, true, false> : DoConvert<32, false, false>;
  }
}

CHandler CInstructions::Negate(CIntType type) {
  if (type.bits == 64) return type.is_signed ? DoNegate<64, true> : DoNegate<64, false>;
  return type.is_signed ? DoNegate<32, true> : DoNegate<32, false>;
}

CHandler CInstructions::BitNot(CIntType type) {
  return type.bits == 32 && !type.is_signed ? DoNot32 : DoNot;
}

Step CInstructions::Const(CMachine& m, Step i) {
  m.r[i->a] = i->imm;
  return i + 1;
}

Step CInstructions::Move(CMachine& m, Step i) {
  m.r[i->a] = m.r[i->b];
  return i + 1;
}

Step CInstructions::Not(CMachine& m, Step i) {
  m.r[i->a] = m.r[i->b] == 0;
  return i + 1;
}

Step CInstructions::Jump(CMachine&, Step i) {
  return i + i->jump;
}

Step CInstructions::JumpIf(CMachine& m, Step i) {
  return m.r[i->a] != 0 ? i + i->jump : i + 1;
}

Step CInstructions::JumpIfNot(CMachine& m, Step i) {
  return m.r[i->a] == 0 ? i + i->jump : i + 1;
}

Step CInstructions::Call(CMachine& m, Step i) {
  return m.Call(static_cast<uint32_t>(i->imm), i);
}

Step CInstructions::Return(CMachine& m, Step i) {
  return m.Return(m.r[i->a]);
}

Step CInstructions::NoReturn(CMachine& m, Step i) {
  return m.discards() ? m.Return(0) : m.Undefined(CUndefined::kNoReturn, i);
}

Step CInstructions::CheckSet(CMachine& m, Step i) {
  if (m.r[i->a] == 0) [[unlikely]]
    return m.Undefined(CUndefined::kUninitialised, i);
  return i + 1;
}

Step CInstructions::UnsetObject(CMachine& m, Step i) {
  const CMachine::Object& object = m.ObjectOf(m.r[i->a]);
  for (uint32_t cell = 0; cell < object.length; ++cell) m.Unset(object.base + cell);
  return i + 1;
}

Step CInstructions::ZeroObject(CMachine& m, Step i) {
  const CMachine::Object& object = m.ObjectOf(m.r[i->a]);
  for (uint32_t cell = 0; cell < object.length; ++cell) m.Store(object.base + cell, 0);
  return i + 1;
}

Step CInstructions::Load(CMachine& m, Step i) {
  uint32_t cell = 0;
  CUndefined why = CUndefined::kNone;
  if (m.Find(m.r[i->b], m.r[i->c], cell, why) == nullptr) [[unlikely]]
    return m.Undefined(why, i);
  m.r[i->a] = m.Load(cell);
  return i + 1;
}

Step CInstructions::Store(CMachine& m, Step i) {
  uint32_t cell = 0;
  CUndefined why = CUndefined::kNone;
  const CMachine::Object* object = m.Find(m.r[i->a], m.r[i->b], cell, why);
  if (object == nullptr) [[unlikely]]
    return m.Undefined(why, i);
  if (object->is_const) [[unlikely]]
    return m.Undefined(CUndefined::kConstant, i);
  if (object->is_static) [[unlikely]]
    return m.Stop(CRun::End::kUnsupported);
  m.Store(cell, m.r[i->c]);
  return i + 1;
}

Step CInstructions::Offset(CMachine& m, Step i) {
  const int64_t pointer = m.r[i->b];
  int64_t moved = 0;
  if (__builtin_mul_overflow(m.r[i->c], i->imm, &moved) ||
      __builtin_add_overflow(moved, int64_t{static_cast<uint32_t>(pointer)}, &moved) || moved < 0 ||
      moved > m.ObjectOf(pointer).length) {
    return m.Undefined(pointer == 0 ? CUndefined::kPointer : CUndefined::kBounds, i);
  }
  m.r[i->a] = PointerTo(static_cast<uint64_t>(pointer) >> 32, static_cast<uint32_t>(moved));
  return i + 1;
}

Step CInstructions::OffsetIn(CMachine& m, Step i) {
  if (static_cast<uint64_t>(m.r[i->c]) >= static_cast<uint64_t>(i->jump)) {
    return m.Undefined(CUndefined::kBounds, i);
  }
  return Offset(m, i);
}

Step CInstructions::OffsetTo(CMachine& m, Step i) {
  if (static_cast<uint64_t>(m.r[i->c]) > static_cast<uint64_t>(i->jump)) {
    return m.Undefined(CUndefined::kBounds, i);
  }
  return Offset(m, i);
}

Step CInstructions::RowOf(CMachine& m, Step i) {
  const Step next = Offset(m, i);
  if (next == nullptr) return next;
  const int64_t pointer = m.r[i->a];
  if (static_cast<uint32_t>(pointer) + i->imm > m.ObjectOf(pointer).length) {
    return m.Undefined(CUndefined::kBounds, i);
  }
  return next;
}

Step CInstructions::Difference(CMachine& m, Step i) {
  const int64_t left = m.r[i->b], right = m.r[i->c];
  if ((left >> 32) != (right >> 32)) return m.Undefined(CUndefined::kPointer, i);
  m.r[i->a] = (left - right) / i->imm;
  return i + 1;
}

Step CInstructions::PointerCompare(CMachine& m, Step i) {
  const auto op = static_cast<COp>(i->code);
  const int64_t left = m.r[i->b], right = m.r[i->c];
  if (op != COp::kEq && op != COp::kNe && (left >> 32) != (right >> 32)) {
    return m.Undefined(CUndefined::kPointer, i);
  }
  // The end of one object and the beginning of another may or may not be the same place.
  if ((left >> 32) != (right >> 32) && left != 0 && right != 0 &&
      (static_cast<uint32_t>(left) == m.ObjectOf(left).length ||
       static_cast<uint32_t>(right) == m.ObjectOf(right).length)) {
    return m.Stop(CRun::End::kUnsupported);
  }
  return ApplyOp(op, kCUnsignedLong, left, right, m.r[i->a]) == CUndefined::kNone ? i + 1 : nullptr;
}

Step CInstructions::Builtin(CMachine& m, Step i) {
  int64_t out = 0;
  const CUndefined undefined =
      ApplyBuiltin(static_cast<CBuiltin>(i->code), static_cast<int>(i->imm), m.r[i->b], out);
  if (undefined != CUndefined::kNone) return m.Undefined(undefined, i);
  m.r[i->a] = out;
  return i + 1;
}

Step CInstructions::Memset(CMachine& m, Step i) {
  uint32_t first = 0;
  uint64_t count = 0;
  const auto bytes = static_cast<uint64_t>(m.r[i->c]);
  if (!FindBytes(m, i, m.r[i->a], bytes, true, first, count)) return nullptr;
  const uint64_t pattern = 0x0101010101010101u * static_cast<uint8_t>(m.r[i->b]);
  const CIntType type{static_cast<uint8_t>(i->imm), (i->code & 1) != 0, false};
  if ((i->code & 2) != 0 && (pattern & 0xff) > 1) return m.Stop(CRun::End::kUnsupported);
  const int64_t value = ConvertedTo(type, static_cast<int64_t>(pattern));
  for (uint64_t k = 0; k < count; ++k) m.Store(first + static_cast<uint32_t>(k), value);
  return i + 1;
}

Step CInstructions::Memcpy(CMachine& m, Step i) {
  uint32_t to = 0, from = 0;
  uint64_t count = 0;
  const auto bytes = static_cast<uint64_t>(m.r[i->c]);
  if (!FindBytes(m, i, m.r[i->a], bytes, true, to, count) ||
      !FindBytes(m, i, m.r[i->b], bytes, false, from, count)) {
    return nullptr;
  }
  if (count > 0 && to < from + count && from < to + count) {
    return m.Undefined(CUndefined::kBounds, i);
  }
  for (uint32_t k = 0; k < count; ++k) {
    m.IsSet(from + k) ? m.Store(to + k, m.Load(from + k)) : m.Unset(to + k);
  }
  return i + 1;
}

Step CInstructions::Unreachable(CMachine& m, Step i) {
  return m.Undefined(CUndefined::kBitsOfZero, i);
}

}  // namespace tidemill
