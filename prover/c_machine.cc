#include "prover/c_machine.h"

#include <algorithm>

namespace tidemill {
namespace {

constexpr size_t kRegistersMax = 1 << 17;
constexpr size_t kMachineCellsMax = 1 << 18;
// A compiler's stack of 8 MiB holds more frames of this size, so that a program that comes here may
// well end there.
constexpr size_t kFramesMax = 10'000;

}  // namespace

CMachine::CMachine(const CCode& code) : code_(code) {
  uint32_t cells = 0;
  for (const CVariable& variable : code.statics) {
    cells += static_cast<uint32_t>(variable.initial.size());
  }
  bool has_calls = code.functions.size() > 1;
  bool has_objects = cells > 0;
  uint32_t registers = 0;
  for (const CCode::Function& function : code.functions) {
    has_objects |= !function.objects.empty();
    registers = std::max(registers, function.registers);
  }
  // Small programs, of which there are many, need little.
  if (!has_calls) has_calls = registers + 64 > 1024;
  registers_.Resize(has_calls ? kRegistersMax : 1024);
  cells_.Resize(has_objects ? kMachineCellsMax : 1);
  set_.Resize(cells_.size());
  objects_.emplace_back();  // null
  for (const CVariable& variable : code.statics) {
    const auto length = static_cast<uint32_t>(variable.initial.size());
    if (static_cells_ + length > cells_.size()) {
      static_too_large_ = true;
      break;
    }
    objects_.push_back({static_cells_, length, variable.is_const, true});
    for (const int64_t value : variable.initial) Store(static_cells_++, value);
  }
  static_objects_ = static_cast<uint32_t>(objects_.size());
}

const CInstruction* CMachine::Undefined(CUndefined undefined, const CInstruction* at) {
  run_.end = CRun::End::kUndefined;
  run_.undefined = undefined;
  run_.line = at->line;
  return nullptr;
}

const CInstruction* CMachine::Stop(CRun::End end) {
  run_.end = end;
  return nullptr;
}

// `call` is null for the function a run begins with.
const CInstruction* CMachine::Call(uint32_t function, const CInstruction* call) {
  const CCode::Function& callee = code_.functions[function];
  const uint16_t first = call == nullptr ? 0 : call->a;
  if (frames_.size() >= kFramesMax ||
      r + first + callee.registers > registers_.data() + registers_.size()) {
    return Stop(CRun::End::kDepth);
  }
  frame_registers_ = callee.registers;
  frames_.push_back({call == nullptr ? nullptr : call + 1, r,
                     static_cast<uint32_t>(objects_.size()), cells_top_, frame_registers_,
                     call != nullptr && call->code != 0});
  r += first;
  for (const CCode::Object& object : callee.objects) {
    if (cells_top_ + object.cells > cells_.size()) return Stop(CRun::End::kDepth);
    r[object.reg] = PointerTo(objects_.size(), 0);
    objects_.push_back({cells_top_, object.cells, false, false});
    std::fill_n(set_.data() + cells_top_, object.cells, uint8_t{0});
    cells_top_ += object.cells;
  }
  return callee.code.data();
}

const CInstruction* CMachine::Return(int64_t value) {
  r[0] = value;
  const Frame frame = frames_.back();
  frames_.pop_back();
  frame_registers_ = frames_.empty() ? 0 : frames_.back().own;
  if (frames_.empty()) run_.value = value;
  r = frame.registers;
  objects_.resize(frame.objects);
  cells_top_ = frame.cells;
  return frame.back;
}

const CMachine::Object* CMachine::Find(int64_t pointer, int64_t moved, uint32_t& cell,
                                       CUndefined& why) const {
  const Object& object = ObjectOf(pointer);
  int64_t offset;
  if (__builtin_add_overflow(static_cast<int64_t>(static_cast<uint32_t>(pointer)), moved,
                             &offset) ||
      offset < 0 || offset >= object.length) {
    why = pointer == 0 ? CUndefined::kPointer : CUndefined::kBounds;
    return nullptr;
  }
  cell = object.base + static_cast<uint32_t>(offset);
  return &object;
}

const CInstruction* CMachine::Start(std::span<const int64_t> arguments, int64_t fill) {
  run_ = {};
  fill_ = fill;
  frames_.clear();
  objects_.resize(static_objects_);
  cells_top_ = static_cells_;
  r = registers_.data();
  if (static_too_large_ || arguments.size() > registers_.size()) return Stop(CRun::End::kDepth);
  std::copy(arguments.begin(), arguments.end(), r);
  return Call(code_.entry, nullptr);
}

CRun CMachine::Run(std::span<const int64_t> arguments, uint64_t steps_max, int64_t fill) {
  const CInstruction* at = Start(arguments, fill);
  uint64_t steps = 0;
  while (at != nullptr) {
    if (steps == steps_max) {
      run_.end = CRun::End::kSteps;
      break;
    }
    ++steps;
    at = at->run(*this, at);
  }
  run_.steps = steps;
  return run_;
}

// Everything that decides what happens next.
struct CMachine::State {
  const CInstruction* at = nullptr;
  std::vector<int64_t> registers;
  std::vector<int64_t> cells;
  std::vector<uint8_t> set;
  std::vector<Frame> frames;
};

bool CMachine::Repeats(std::span<const int64_t> arguments, uint64_t steps_max) {
  // States are compared whole, so what was never written must be the same every time.
  std::ranges::fill(registers_.First(registers_.size()), 0);
  std::ranges::fill(cells_.First(cells_.size()).subspan(static_cells_), 0);
  std::ranges::fill(set_.First(set_.size()).subspan(static_cells_), uint8_t{0});
  const CInstruction* at = Start(arguments, 0);
  State kept;
  uint64_t next_keep = 1024;
  for (uint64_t steps = 0; at != nullptr && steps < steps_max; ++steps) {
    const CInstruction* before = at;
    at = at->run(*this, at);
    if (at == nullptr || at > before || run_.read_unset) continue;
    const auto registers = std::span(registers_.data(), r + frame_registers_);
    const auto cells = cells_.First(cells_top_).subspan(static_cells_);
    const auto set = set_.First(cells_top_).subspan(static_cells_);
    if (at == kept.at && frames_ == kept.frames && std::ranges::equal(registers, kept.registers) &&
        std::ranges::equal(cells, kept.cells) && std::ranges::equal(set, kept.set)) {
      return true;
    }
    if (steps < next_keep) continue;
    // Brent: what is kept is ever older, so that a cycle of any length is found.
    next_keep = steps * 2;
    kept = {at,
            {registers.begin(), registers.end()},
            {cells.begin(), cells.end()},
            {set.begin(), set.end()},
            frames_};
  }
  return false;
}

}  // namespace tidemill
