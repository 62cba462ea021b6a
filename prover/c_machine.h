// A register machine that runs compiled C exactly: every operation that C leaves undefined ends the
// run with its name and line. Execution without a box is safe because the machine can do nothing
// but compute, within bounds on steps, depth and memory that are counts, so that the same program
// on the same input always ends the same way.
//
//   CProgram -> CompileC -> CCode -> CMachine::Run(arguments) -> CRun
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"
#include "prover/c_ast.h"

namespace tidemill {

class CMachine;
struct CInstruction;
// Does the instruction and gives the next one; null: the run is over.
using CHandler = const CInstruction* (*)(CMachine&, const CInstruction*);

// a, b and c are registers of the function's frame. `jump` is relative.
struct CInstruction {
  CHandler run = nullptr;
  uint16_t a = 0;
  uint16_t b = 0;
  uint16_t c = 0;
  uint16_t code = 0;  // the builtin
  int32_t jump = 0;
  uint32_t line = 0;
  int64_t imm = 0;
};

struct CCode {
  // An array, or a variable whose address is taken. `reg` gets its address when a call begins.
  struct Object {
    uint32_t cells = 0;
    uint16_t reg = 0;
  };
  struct Function {
    std::vector<CInstruction> code;
    std::vector<Object> objects;
    uint32_t registers = 0;
  };
  std::vector<Function> functions;
  std::vector<CVariable> statics;
  uint32_t entry = 0;
};

// kUnavailable: it needs more registers than there are.
Result<CCode> CompileC(const CProgram& program);

// How a run ended.
struct CRun {
  enum class End : uint8_t {
    kReturned,    // with `value`
    kUndefined,   // `undefined`, at `line`
    kSteps,       // it had taken as many steps as it may
    kDepth,       // calls nested deeper, or arrays larger, than there is room for
    kUnsupported  // it did something whose meaning depends on more than one call
  };
  End end = End::kReturned;
  int64_t value = 0;
  CUndefined undefined = CUndefined::kNone;
  uint32_t line = 0;
  uint64_t steps = 0;
  // An array's element was read that had no value; the machine gave it `fill`. C leaves it open
  // what is read, so the result counts only if it does not depend on that.
  bool read_unset = false;
};

class CMachine {
 public:
  // Borrows the code.
  explicit CMachine(const CCode& code);

  CRun Run(std::span<const int64_t> arguments, uint64_t steps_max, int64_t fill = 0);
  // Whether the run comes to a state in which it was before, so that it never ends. False: it
  // ended, or `steps_max` were not enough to know.
  bool Repeats(std::span<const int64_t> arguments, uint64_t steps_max);

  // For the instructions.
  struct Object {
    uint32_t base = 0;
    uint32_t length = 0;
    bool is_const = false;
    bool is_static = false;
  };
  struct Frame {
    const CInstruction* back = nullptr;
    int64_t* registers = nullptr;
    uint32_t objects = 0;
    uint32_t cells = 0;
    uint32_t own = 0;       // registers of the function called
    bool discards = false;  // what the function returns is not used
    bool operator==(const Frame&) const = default;
  };
  int64_t* r = nullptr;
  const CInstruction* Undefined(CUndefined undefined, const CInstruction* at);
  const CInstruction* Stop(CRun::End end);
  const CInstruction* Call(uint32_t function, const CInstruction* call);
  bool discards() const { return frames_.back().discards; }
  const CInstruction* Return(int64_t value);
  // The cell `moved` elements behind a pointer; null, with the reason in `why`: there is none.
  const Object* Find(int64_t pointer, int64_t moved, uint32_t& cell, CUndefined& why) const;
  const Object& ObjectOf(int64_t pointer) const {
    return objects_[static_cast<uint64_t>(pointer) >> 32];
  }
  int64_t Load(uint32_t cell) {
    if (set_[cell] != 0) return cells_[cell];
    run_.read_unset = true;
    return fill_;
  }
  void Store(uint32_t cell, int64_t value) {
    cells_[cell] = value;
    set_[cell] = 1;
  }
  bool IsSet(uint32_t cell) const { return set_[cell] != 0; }
  void Unset(uint32_t cell) { set_[cell] = 0; }

 private:
  struct State;
  const CInstruction* Start(std::span<const int64_t> arguments, int64_t fill);

  const CCode& code_;
  // Room that is not filled before it is used: most programs touch little of it.
  template <typename T>
  struct Room {
    std::unique_ptr<T[]> items;
    size_t count = 0;
    void Resize(size_t wanted) {
      items = std::make_unique_for_overwrite<T[]>(wanted);
      count = wanted;
    }
    T* data() const { return items.get(); }
    size_t size() const { return count; }
    T& operator[](size_t i) const { return items[i]; }
    std::span<T> First(size_t n) const { return {items.get(), n}; }
  };
  Room<int64_t> registers_;
  Room<int64_t> cells_;
  Room<uint8_t> set_;
  std::vector<Object> objects_;
  std::vector<Frame> frames_;
  uint32_t static_objects_ = 0;
  bool static_too_large_ = false;
  uint32_t static_cells_ = 0;
  uint32_t cells_top_ = 0;
  uint32_t frame_registers_ = 0;
  int64_t fill_ = 0;
  CRun run_;
};

inline int64_t PointerTo(uint64_t object, uint32_t offset) {
  return static_cast<int64_t>(object << 32 | offset);
}

}  // namespace tidemill
