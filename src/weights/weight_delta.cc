#include "weights/weight_delta.h"

#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "core/parallel.h"
#include "model/safetensors.h"

namespace tidemill {
namespace {

constexpr std::string_view kDeltaMagic = "TMDELTA1";
// The bytes compared, compressed and applied at a time.
constexpr size_t kPieceBytes = size_t{4} << 20;
// Within it, a block counts its changes: a block in which nearly everything changed needs no
// positions.
constexpr size_t kBlockBytes = size_t{64} << 10;
constexpr size_t kVarintMax = 10;

// Where a tensor lies in the bytes of a version, and how wide its elements are.
struct Place {
  size_t begin = 0;
  size_t bytes = 0;
  size_t width = 1;
  size_t pieces() const { return (bytes + kPieceBytes - 1) / kPieceBytes; }
};

struct Layout {
  size_t head_bytes = 0;
  std::vector<Place> tensors;  // as they follow each other; those without bytes are left out
};

Result<Layout> LayoutOf(std::string_view version) {
  TM_ASSIGN_OR_RETURN(const SafetensorsHeader header, ParseSafetensors(version, "base"));
  Layout layout;
  const auto* begin = reinterpret_cast<const std::byte*>(version.data());
  for (const TensorView& view : header.tensors) {
    if (view.bytes == 0) continue;
    layout.tensors.push_back(
        {static_cast<size_t>(view.data - begin), view.bytes, DtypeSize(view.dtype)});
  }
  std::sort(layout.tensors.begin(), layout.tensors.end(),
            [](const Place& a, const Place& b) { return a.begin < b.begin; });
  layout.head_bytes = layout.tensors.empty() ? version.size() : layout.tensors.front().begin;
  return layout;
}

void PutNumber(std::string& out, uint64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Reads from the front of bytes that may be anything.
struct Cursor {
  std::string_view rest;

  std::optional<std::string_view> Take(uint64_t bytes) {
    if (bytes > rest.size()) return std::nullopt;
    const std::string_view taken = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    return taken;
  }
  std::optional<uint64_t> Number() {
    const auto bytes = Take(sizeof(uint64_t));
    if (!bytes) return std::nullopt;
    uint64_t value = 0;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  }
  std::optional<uint64_t> Varint() {
    uint64_t value = 0;
    for (size_t i = 0; i < kVarintMax && !rest.empty(); ++i) {
      const auto byte = static_cast<uint8_t>(rest.front());
      rest.remove_prefix(1);
      value |= uint64_t{byte & 0x7FU} << (7 * i);
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
};

uint64_t ChecksumOf(const std::byte* data, size_t bytes) {
  WeightChecksum sum;
  sum.Add(data, bytes);
  return sum.Value();
}

// The changes of a piece before compression: how many each block has, the distances between them,
// and their bytes, those of the same place in an element beside each other.
struct Changes {
  std::string counts;
  std::string gaps;
  std::vector<std::string> planes;
  uint64_t changed = 0;

  explicit Changes(size_t width) : planes(width) {}

  void Add(const std::byte* old, const std::byte* now) {
    for (size_t i = 0; i < planes.size(); ++i) {
      planes[i].push_back(static_cast<char>(old[i] ^ now[i]));
    }
  }
  std::string Plain() const {
    std::string plain;
    PutVarint(plain, counts.size());
    plain += counts;
    PutVarint(plain, gaps.size());
    plain += gaps;
    for (const std::string& plane : planes) plain += plane;
    return plain;
  }
};

// Element indices that differ, within a block; `found` has room for all of them.
size_t FindChanges(const std::byte* old, const std::byte* now, size_t bytes, size_t width,
                   uint32_t* found) {
  size_t count = 0;
  size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    uint64_t a = 0;
    uint64_t b = 0;
    std::memcpy(&a, old + at, 8);
    std::memcpy(&b, now + at, 8);
    if (a == b) continue;
    for (size_t i = 0; i < 8; i += width) {
      found[count] = static_cast<uint32_t>((at + i) / width);
      count += std::memcmp(old + at + i, now + at + i, width) != 0 ? 1 : 0;
    }
  }
  for (; at < bytes; at += width) {
    found[count] = static_cast<uint32_t>(at / width);
    count += std::memcmp(old + at, now + at, width) != 0 ? 1 : 0;
  }
  return count;
}

void AddBlock(const std::byte* old, const std::byte* now, size_t bytes, size_t width,
              std::vector<uint32_t>& found, Changes& changes) {
  const size_t elements = bytes / width;
  const size_t count = FindChanges(old, now, bytes, width, found.data());
  changes.changed += count;
  // A distance costs a byte at least, so from here on all elements are the shorter list.
  const bool all = count * (width + 1) >= elements * width;
  PutVarint(changes.counts, all ? elements : count);
  if (all) {
    for (size_t i = 0; i < elements; ++i) changes.Add(old + i * width, now + i * width);
    return;
  }
  uint32_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    PutVarint(changes.gaps, found[i] - next);
    next = found[i] + 1;
    const size_t at = size_t{found[i]} * width;
    changes.Add(old + at, now + at);
  }
}

// A piece as it travels: the length of the plain changes, then themselves, compressed if that is
// shorter. Empty: nothing changed.
std::string EncodePiece(const std::byte* old, const std::byte* now, size_t bytes, size_t width,
                        uint64_t& changed) {
  if (std::memcmp(old, now, bytes) == 0) return {};
  Changes changes(width);
  std::vector<uint32_t> found(std::min(bytes, kBlockBytes) / width + 1);
  for (size_t at = 0; at < bytes; at += kBlockBytes) {
    AddBlock(old + at, now + at, std::min(kBlockBytes, bytes - at), width, found, changes);
  }
  changed += changes.changed;
  const std::string plain = changes.Plain();
  std::string packed(ZSTD_compressBound(plain.size()), '\0');
  const size_t length =
      ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), /*level=*/1);
  std::string out;
  PutVarint(out, plain.size());
  if (ZSTD_isError(length) || length >= plain.size()) return out + plain;
  packed.resize(length);
  return out + packed;
}

Status Damaged(std::string_view what) {
  return Corrupt("the weights' delta is damaged: " + std::string(what));
}

// The plain changes of a piece of `bytes`.
Result<std::string> DecodePiece(std::string_view packed, size_t bytes) {
  Cursor cursor{packed};
  const auto size = cursor.Varint();
  // Each block counts, each element has at most a distance and its bytes.
  const size_t size_max = 4 * bytes + kVarintMax * (bytes / kBlockBytes + 3);
  if (!size || *size > size_max) return Damaged("a piece of impossible length");
  if (cursor.rest.size() == *size) return std::string(cursor.rest);
  std::string plain(*size, '\0');
  const size_t length =
      ZSTD_decompress(plain.data(), plain.size(), cursor.rest.data(), cursor.rest.size());
  if (ZSTD_isError(length) || length != plain.size()) return Damaged("a piece does not unpack");
  return plain;
}

// Changes `out`, a copy of the base's piece.
Status ApplyPiece(std::string_view plain, std::byte* out, size_t bytes, size_t width) {
  Cursor cursor{plain};
  const auto counts_bytes = cursor.Varint();
  const auto counts = counts_bytes ? cursor.Take(*counts_bytes) : std::nullopt;
  const auto gaps_bytes = counts ? cursor.Varint() : std::nullopt;
  const auto gaps = gaps_bytes ? cursor.Take(*gaps_bytes) : std::nullopt;
  if (!gaps || cursor.rest.size() % width != 0) return Damaged("a piece without its parts");
  const size_t values = cursor.rest.size() / width;
  Cursor count{*counts};
  Cursor gap{*gaps};
  size_t value = 0;
  for (size_t block = 0; block < bytes; block += kBlockBytes) {
    const size_t elements = std::min(kBlockBytes, bytes - block) / width;
    const auto changed = count.Varint();
    if (!changed || *changed > elements || *changed > values - value) {
      return Damaged("a block with an impossible count");
    }
    size_t next = 0;
    for (size_t i = 0; i < *changed; ++i, ++value, ++next) {
      if (*changed < elements) {
        const auto skip = gap.Varint();
        if (!skip || *skip >= elements - next) return Damaged("a position outside of its block");
        next += *skip;
      }
      std::byte* to = out + block + next * width;
      for (size_t plane = 0; plane < width; ++plane) {
        to[plane] ^= static_cast<std::byte>(cursor.rest[plane * values + value]);
      }
    }
  }
  if (value != values || !count.rest.empty() || !gap.rest.empty()) {
    return Damaged("a piece with more than its blocks need");
  }
  return Ok();
}

// A delta's entry for one tensor.
struct TensorChange {
  uint64_t before = 0;  // checksums
  uint64_t after = 0;
  std::vector<std::string_view> pieces;
};

Status ApplyTensor(const TensorChange& change, const std::byte* base, std::byte* out,
                   const Place& place) {
  WeightChecksum before;
  WeightChecksum after;
  for (size_t i = 0; i < change.pieces.size(); ++i) {
    const size_t at = i * kPieceBytes;
    const size_t bytes = std::min(kPieceBytes, place.bytes - at);
    CopyChecked(out + at, base + at, bytes, before);
    if (!change.pieces[i].empty()) {
      TM_ASSIGN_OR_RETURN(const std::string plain, DecodePiece(change.pieces[i], bytes));
      TM_RETURN_IF_ERROR(ApplyPiece(plain, out + at, bytes, place.width));
    }
    after.Add(out + at, bytes);
  }
  if (before.Value() != change.before) {
    return Invalid("the weights' delta was made from another version than the one that is here");
  }
  if (after.Value() != change.after) return Damaged("a tensor has the wrong checksum");
  return Ok();
}

Result<std::vector<TensorChange>> ReadChanges(std::string_view base, std::string_view delta,
                                              const Layout& layout) {
  Cursor cursor{delta};
  const auto magic = cursor.Take(kDeltaMagic.size());
  if (!magic || *magic != kDeltaMagic)
    return Damaged("it does not begin with " + std::string(kDeltaMagic));
  const auto bytes = cursor.Number();
  const auto head = cursor.Number();
  const auto tensors = cursor.Number();
  if (!tensors) return Damaged("it is cut off");
  const auto* begin = reinterpret_cast<const std::byte*>(base.data());
  if (*bytes != base.size() || *tensors != layout.tensors.size() ||
      *head != ChecksumOf(begin, layout.head_bytes)) {
    return Invalid("the weights' delta was made from a version with other tensors");
  }
  std::vector<TensorChange> changes(layout.tensors.size());
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto before = cursor.Number();
    const auto after = cursor.Number();
    if (!after) return Damaged("it is cut off");
    changes[i] = {.before = *before, .after = *after, .pieces = {}};
    for (size_t piece = 0; piece < layout.tensors[i].pieces(); ++piece) {
      const auto length = cursor.Varint();
      const auto packed = length ? cursor.Take(*length) : std::nullopt;
      if (!packed) return Damaged("it is cut off");
      changes[i].pieces.push_back(*packed);
    }
  }
  if (!cursor.rest.empty()) return Damaged("it goes on behind its end");
  return changes;
}

}  // namespace

void DeltaMaker::Keep(const SafetensorsParts& parts) {
  last_bytes_ = parts.bytes();
  if (!last_ || last_->capacity() < last_bytes_) last_.emplace(last_bytes_);
  std::byte* to = last_->data();
  for (const std::string_view part : parts.parts) {
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
}

std::optional<std::string> DeltaMaker::Next(const SafetensorsParts& parts) {
  std::optional<std::string> delta;
  if (last_bytes_ > 0) delta = Compare(parts);
  Keep(parts);
  return delta;
}

std::optional<std::string> DeltaMaker::Compare(const SafetensorsParts& parts) {
  const std::string_view base(reinterpret_cast<const char*>(last_->data()), last_bytes_);
  const Result<Layout> layout = LayoutOf(base);
  if (!layout.ok() || parts.bytes() != base.size() || !base.starts_with(parts.head)) return {};
  // The parts behind the head are the tensors, as they follow each other.
  std::vector<std::string_view> now;
  std::copy_if(parts.parts.begin() + 1, parts.parts.end(), std::back_inserter(now),
               [](std::string_view part) { return !part.empty(); });
  const std::vector<Place>& places = layout->tensors;
  TM_CHECK(now.size() == places.size(), "equal heads describe equal tensors");

  const auto bytes_max =
      static_cast<uint64_t>(options_.share_max * static_cast<double>(base.size()));
  std::vector<std::string> encoded(places.size());
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> changed{0};
  figures_.elements = 0;
  for (const Place& place : places) figures_.elements += place.bytes / place.width;
  const Status fits = InParallel(places.size(), options_.threads, [&](size_t i) {
    const Place& place = places[i];
    const std::byte* old = last_->data() + place.begin;
    const auto* next = reinterpret_cast<const std::byte*>(now[i].data());
    std::string& out = encoded[i];
    PutNumber(out, ChecksumOf(old, place.bytes));
    PutNumber(out, ChecksumOf(next, place.bytes));
    uint64_t here = 0;
    for (size_t at = 0; at < place.bytes; at += kPieceBytes) {
      const std::string piece = EncodePiece(
          old + at, next + at, std::min(kPieceBytes, place.bytes - at), place.width, here);
      PutVarint(out, piece.size());
      out += piece;
      if ((bytes += piece.size()) > bytes_max) return Full("larger than it is worth");
    }
    changed += here;
    return Ok();
  });
  if (!fits.ok()) return {};
  figures_.changed = changed;
  std::string delta(kDeltaMagic);
  PutNumber(delta, base.size());
  PutNumber(delta, ChecksumOf(last_->data(), layout->head_bytes));
  PutNumber(delta, places.size());
  for (const std::string& tensor : encoded) delta += tensor;
  return delta;
}

Status ApplyDelta(std::string_view base, std::string_view delta, std::byte* out, int threads) {
  TM_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(base));
  TM_ASSIGN_OR_RETURN(const std::vector<TensorChange> changes, ReadChanges(base, delta, layout));
  const auto* from = reinterpret_cast<const std::byte*>(base.data());
  std::memcpy(out, from, layout.head_bytes);
  return InParallel(changes.size(), threads, [&](size_t i) {
    const Place& place = layout.tensors[i];
    return ApplyTensor(changes[i], from + place.begin, out + place.begin, place);
  });
}

}  // namespace tidemill
