#include "conversation/jinja/text_writer.h"

#include <algorithm>

namespace tidemill {

void TextWriter::Append(std::string_view bytes, bool outside) {
  if (bytes.empty()) return;
  lease_.Add(bytes.size());
  const size_t at = bytes_.size();
  bytes_.append(bytes);
  if (!outside) return;
  if (!outside_.empty() && outside_.back().end == at) {
    outside_.back().end = bytes_.size();
  } else {
    lease_.Add(sizeof(TextSpan));
    outside_.push_back({at, bytes_.size()});
  }
}

void TextWriter::Append(const JinjaText& text, size_t begin, size_t end) {
  const std::string_view bytes = text.bytes;
  auto span = std::lower_bound(text.outside.begin(), text.outside.end(), begin,
                               [](const TextSpan& s, size_t at) { return s.end <= at; });
  while (begin < end) {
    if (span == text.outside.end() || span->begin >= end) {
      Append(bytes.substr(begin, end - begin), false);
      return;
    }
    if (span->begin > begin) Append(bytes.substr(begin, span->begin - begin), false);
    begin = std::max(begin, span->begin);
    const size_t until = std::min(span->end, end);
    Append(bytes.substr(begin, until - begin), true);
    begin = until;
    ++span;
  }
}

void TextWriter::AppendEscaped(const JinjaText& text) {
  if (text.markup) return Append(text);
  TextReader reader(text);
  TextCharacter c;
  while (reader.Next(c)) {
    switch (c.code) {
      case '&':
        Append("&amp;", c.outside);
        break;
      case '<':
        Append("&lt;", c.outside);
        break;
      case '>':
        Append("&gt;", c.outside);
        break;
      case '\'':
        Append("&#39;", c.outside);
        break;
      case '"':
        Append("&#34;", c.outside);
        break;
      default:
        Append(std::string_view(text.bytes).substr(c.begin, c.end - c.begin), c.outside);
    }
  }
}

JinjaText TextWriter::Release(bool markup) {
  return {std::move(bytes_), std::move(outside_), markup, std::move(lease_)};
}

JinjaValue TextWriter::Done(bool markup) {
  lease_.Add(sizeof(JinjaText));
  return JinjaValue(JinjaValue::TextRef(std::make_shared<JinjaText>(Release(markup))));
}

JinjaValue TextPart(RenderBudget& budget, const JinjaValue& text, size_t begin, size_t end) {
  const JinjaText& body = text.text();
  if (begin == 0 && end == body.bytes.size()) return text;
  TextWriter out(budget);
  if (begin < end) out.Append(body, begin, end);
  return out.Done(body.markup);
}

bool TextReader::Next(TextCharacter& out) {
  if (at_ >= text_.bytes.size()) return false;
  size_t length = 0;
  out.code = CharacterAt(text_.bytes, at_, length);
  out.begin = at_;
  at_ = out.end = at_ + length;
  while (span_ < text_.outside.size() && text_.outside[span_].end <= out.begin) ++span_;
  out.outside = span_ < text_.outside.size() && text_.outside[span_].begin <= out.begin;
  return true;
}

uint32_t CharacterAt(std::string_view bytes, size_t at, size_t& length) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(at);
  const size_t wanted = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  length = 1;
  if (wanted == 1) return lead;
  uint32_t code = lead & (0xFFU >> (wanted + 1));
  for (size_t i = 1; i < wanted; ++i) {
    if (at + i >= bytes.size() || (byte(at + i) & 0xC0) != 0x80) return lead;
    code = code << 6 | (byte(at + i) & 0x3FU);
  }
  length = wanted;
  return code;
}

void AppendCharacter(uint32_t code, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

size_t CountCharacters(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(
      bytes.begin(), bytes.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

size_t ByteOfCharacter(std::string_view bytes, size_t index) {
  size_t at = 0;
  for (; at < bytes.size(); ++at) {
    if ((static_cast<uint8_t>(bytes[at]) & 0xC0) == 0x80) continue;
    if (index-- == 0) return at;
  }
  return at;
}

bool IsPythonSpace(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

namespace {

bool IsStripped(std::string_view bytes, size_t at, size_t length, uint32_t code,
                const std::string_view* chars) {
  if (chars == nullptr) return IsPythonSpace(code);
  const std::string_view character = bytes.substr(at, length);
  for (size_t i = 0; i < chars->size();) {
    size_t size = 0;
    CharacterAt(*chars, i, size);
    if (chars->substr(i, size) == character) return true;
    i += size;
  }
  return false;
}

}  // namespace

TextSpan StripSpan(std::string_view bytes, bool left, bool right, const std::string_view* chars) {
  size_t begin = 0;
  size_t end = bytes.size();
  size_t length = 0;
  while (left && begin < end) {
    const uint32_t code = CharacterAt(bytes, begin, length);
    if (!IsStripped(bytes, begin, length, code, chars)) break;
    begin += length;
  }
  while (right && begin < end) {
    size_t at = end - 1;
    while (at > begin && (static_cast<uint8_t>(bytes[at]) & 0xC0) == 0x80) --at;
    const uint32_t code = CharacterAt(bytes, at, length);
    if (at + length != end || !IsStripped(bytes, at, length, code, chars)) break;
    end = at;
  }
  return {begin, end};
}

}  // namespace tidemill
