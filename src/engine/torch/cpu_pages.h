// How keys and values lie in a page of the CPU's cache, all layers together.
#pragma once

#include "engine/cpu/cpu_kernels.h"
#include "model/model_config.h"

namespace tidemill {

struct CpuPageShape {
  explicit CpuPageShape(const ModelConfig& c)
      : value_stride((c.head_dim + kPageSlots - 1) / kPageSlots * kPageSlots),
        keys(c.kv_size() * kPageSlots),
        values(c.num_kv_heads * kPageSlots * value_stride),
        page(c.num_layers * (keys + values)) {}

  long KeysAt(long layer) const { return layer * (keys + values); }
  long ValuesAt(long layer) const { return KeysAt(layer) + keys; }

  long value_stride;
  long keys;  // numbers in a page for one layer
  long values;
  long page;
};

}  // namespace tidemill
