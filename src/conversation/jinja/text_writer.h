// Builds text that remembers what came from outside, and reads text by characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conversation/jinja/value.h"

namespace tidemill {

// Every byte is charged to the budget as it is written.
class TextWriter {
 public:
  explicit TextWriter(RenderBudget& budget) : budget_(budget), lease_(&budget) {}

  void Own(std::string_view bytes) { Append(bytes, false); }
  void Append(std::string_view bytes, bool outside);
  void Append(const JinjaText& text) { Append(text, 0, text.bytes.size()); }
  void Append(const JinjaText& text, size_t begin, size_t end);
  // As `text`, with &, <, >, ' and " as HTML writes them, unless it is markup already.
  void AppendEscaped(const JinjaText& text);

  size_t size() const { return bytes_.size(); }
  RenderBudget& budget() { return budget_; }
  // The text; the writer is not used afterwards.
  JinjaValue Done(bool markup = false);
  JinjaText Release(bool markup = false);

 private:
  RenderBudget& budget_;
  std::string bytes_;
  std::vector<TextSpan> outside_;
  MemoryLease lease_;
};

// The part of a text between two bytes; the whole is shared.
JinjaValue TextPart(RenderBudget& budget, const JinjaValue& text, size_t begin, size_t end);

// A character of a text: its code point, where it lies and whether it came from outside.
struct TextCharacter {
  uint32_t code = 0;
  size_t begin = 0;
  size_t end = 0;
  bool outside = false;
};
// Reads a text from its start. Ill-formed bytes are characters of their own.
class TextReader {
 public:
  explicit TextReader(const JinjaText& text) : text_(text) {}
  bool Next(TextCharacter& out);

 private:
  const JinjaText& text_;
  size_t at_ = 0;
  size_t span_ = 0;
};

size_t CountCharacters(std::string_view bytes);
// The byte at which character `index` starts; the size where there are fewer.
size_t ByteOfCharacter(std::string_view bytes, size_t index);
uint32_t CharacterAt(std::string_view bytes, size_t at, size_t& length);
void AppendCharacter(uint32_t code, std::string& out);
// Python's str.isspace, which is also what \s matches.
bool IsPythonSpace(uint32_t code);
// The bounds of `bytes` without white space (or the characters of `chars`) at its ends.
TextSpan StripSpan(std::string_view bytes, bool left, bool right, const std::string_view* chars);

}  // namespace tidemill
