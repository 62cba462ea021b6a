#include "tools/box/box_image.h"

asm(".section .rodata\n"
    ".global tidemill_box_init_begin\n"
    ".global tidemill_box_init_end\n"
    ".balign 16\n"
    "tidemill_box_init_begin:\n"
    ".incbin \"" TIDEMILL_BOX_INIT_PATH
    "\"\n"
    "tidemill_box_init_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" const char tidemill_box_init_begin[];
extern "C" const char tidemill_box_init_end[];

namespace tidemill {

std::string_view BoxInitImage() {
  return {tidemill_box_init_begin,
          static_cast<size_t>(tidemill_box_init_end - tidemill_box_init_begin)};
}

}  // namespace tidemill
