#include "tokenizer/normalizer.h"

#include "tokenizer/byte_characters.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

constexpr const char* kKnownNormalizers =
    "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Replace, Prepend, BertNormalizer, Precompiled, Nmt, "
    "ByteLevel, Sequence";

bool drop_marks(CodePoint c, std::string&) { return is_mark(c); }
bool drop_nonspacing_marks(CodePoint c, std::string&) { return is_nonspacing_mark(c); }

bool to_lowercase(CodePoint c, std::string& to) {
  if (c < 0x80) {
    if (c < 'A' || c > 'Z') return false;
    to += static_cast<char>(c + 'a' - 'A');
    return true;
  }
  to += lowercase(c);
  return true;
}

bool clean(CodePoint c, std::string& to) {
  if (c == 0 || c == 0xFFFD || is_control(c)) return true;
  if (!is_white_space(c)) return false;
  to += ' ';
  return true;
}

bool set_ideographs_apart(CodePoint c, std::string& to) {
  if (!is_ideograph(c)) return false;
  to += ' ' + utf8(c) + ' ';
  return true;
}

// The rules of neural machine translation: which characters are dropped, and which become blanks.
bool clean_as_nmt(CodePoint c, std::string& to) {
  const bool is_dropped = is_in(c, 1, 8) || c == 0x0B || is_in(c, 0x0E, 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  const bool is_blank = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || is_in(c, 0x200B, 0x200F) ||
                        is_in(c, 0x2028, 0x2029) || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  if (is_blank) to += ' ';
  return is_dropped || is_blank;
}

void apply(const MapCharacters& step, const TracedText& text, Bytes part, Revision& to) {
  std::uint32_t kept = part.begin;  // the bytes from here to the current character stay
  std::string made;
  for (std::uint32_t at = part.begin; at < part.end;) {
    const Decoded c = code_point(text.text(), at);
    const auto end = at + static_cast<std::uint32_t>(c.bytes);
    made.clear();
    if (step.change(c.value, made)) {
      to.keep({kept, at});
      to.replace({at, end}, made);
      kept = end;
    }
    at = end;
  }
  to.keep({kept, part.end});
}

// Piece by piece, so that the origin of each piece is known.
void apply(const UnicodeForm& form, const TracedText& text, Bytes part, Revision& to) {
  const std::string_view all = text.text();
  std::uint32_t kept = part.begin;
  for (std::uint32_t at = part.begin; at < part.end;) {
    std::uint32_t end = at + static_cast<std::uint32_t>(code_point(all, at).bytes);
    bool is_ascii = end == at + 1;
    while (end < part.end) {
      const Decoded c = code_point(all, end);
      if (is_boundary(c.value, form)) break;
      is_ascii = false;
      end += static_cast<std::uint32_t>(c.bytes);
    }
    if (!is_ascii) {
      to.keep({kept, at});
      to.replace({at, end}, normalized(text.text({at, end}), form));
      kept = end;
    }
    at = end;
  }
  to.keep({kept, part.end});
}

void apply(const Strip& step, const TracedText& text, Bytes part, Revision& to) {
  const std::string_view all = text.text();
  while (step.left && part.begin < part.end) {
    const Decoded c = code_point(all, part.begin);
    if (!is_white_space(c.value)) break;
    part.begin += static_cast<std::uint32_t>(c.bytes);
  }
  while (step.right && part.begin < part.end) {
    std::uint32_t last = part.end - 1;
    while ((all[last] & 0xC0) == 0x80) --last;
    if (!is_white_space(code_point(all, last).value)) break;
    part.end = last;
  }
  to.keep(part);
}

void apply(const Prepend& step, const TracedText&, Bytes part, Revision& to) {
  if (part.begin < part.end) to.insert(part.begin, step.text);
  to.keep(part);
}

void apply(const ByteCharacters&, const TracedText& text, Bytes part, Revision& to) {
  write_as_characters(text, part, to);
}

// A grapheme is looked up as a whole if it is short. If it is long or not found, its code points are looked up.
void apply(const Charsmap& map, const TracedText& text, Bytes part, Revision& to) {
  constexpr std::size_t kMostBytes = 6;
  const std::string_view all = text.text(part);
  std::size_t begin = 0;
  for (const std::size_t end : grapheme_ends(all)) {
    const auto place = [&](std::size_t at) { return part.begin + static_cast<std::uint32_t>(at); };
    const auto whole = end - begin < kMostBytes ? map.replacement(all.substr(begin, end - begin)) : std::nullopt;
    if (whole) to.replace({place(begin), place(end)}, *whole);
    for (std::size_t at = begin; !whole && at < end;) {
      const std::size_t next = at + code_point(all, at).bytes;
      const auto found = map.replacement(all.substr(at, next - at));
      if (found)
        to.replace({place(at), place(next)}, *found);
      else
        to.keep({place(at), place(next)});
      at = next;
    }
    begin = end;
  }
}

void apply_to_all(const Replace& step, Cut& cut) {
  Finder finder(step.pattern);
  rewrite(cut, [&](const TracedText& text, Bytes part, Revision& to) {
    for (const auto& [found, is_match] : finder.find(text.text(part))) {
      const Bytes at{part.begin + found.begin, part.begin + found.end};
      if (is_match)
        to.replace(at, step.content);
      else
        to.keep(at);
    }
  });
}

template <typename Step>
void apply_to_all(const Step& step, Cut& cut) {
  rewrite(cut, [&](const TracedText& text, Bytes part, Revision& to) { apply(step, text, part, to); });
}

}  // namespace

Normalizer::Normalizer(const Json& json, const std::string& where) { add(json, where); }

void Normalizer::add(const Json& json, const std::string& where) {
  const std::string type = type_of(json, where);
  if (type == "Sequence") {
    for (const Json& one : list(json, "normalizers", where)) add(one, where);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps_.emplace_back(UnicodeForm{type.ends_with('C'), type.starts_with("NFK")});
  } else if (type == "Lowercase") {
    steps_.emplace_back(MapCharacters{to_lowercase});
  } else if (type == "StripAccents") {
    steps_.emplace_back(MapCharacters{drop_marks});
  } else if (type == "Nmt") {
    steps_.emplace_back(MapCharacters{clean_as_nmt});
  } else if (type == "Strip") {
    steps_.emplace_back(Strip{member<bool>(json, "strip_left", where), member<bool>(json, "strip_right", where)});
  } else if (type == "Replace") {
    steps_.emplace_back(
        Replace{read_pattern(child(json, "pattern", where), where), member<std::string>(json, "content", where)});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{member<std::string>(json, "prepend", where)});
  } else if (type == "Precompiled") {
    steps_.emplace_back(Charsmap(member<std::string>(json, "precompiled_charsmap", where), where));
  } else if (type == "ByteLevel") {
    steps_.emplace_back(ByteCharacters{});
  } else if (type == "BertNormalizer") {
    add_bert(json, where);
  } else {
    refuse_type("a normalizer", type, kKnownNormalizers, where);
  }
}

void Normalizer::add_bert(const Json& json, const std::string& where) {
  const bool lowers = member<bool>(json, "lowercase", where);
  if (member<bool>(json, "clean_text", where)) steps_.emplace_back(MapCharacters{clean});
  if (member<bool>(json, "handle_chinese_chars", where)) steps_.emplace_back(MapCharacters{set_ideographs_apart});
  if (member_or<bool>(json, "strip_accents", lowers, where)) {
    steps_.emplace_back(UnicodeForm{false, false});
    steps_.emplace_back(MapCharacters{drop_nonspacing_marks});
  }
  if (lowers) steps_.emplace_back(MapCharacters{to_lowercase});
}

void Normalizer::run(Cut& cut) const {
  for (const NormalizerStep& step : steps_) {
    std::visit([&](const auto& one) { apply_to_all(one, cut); }, step);
  }
}

std::string Normalizer::run(std::string_view text) const {
  Cut cut{TracedText(text, false), {}};
  cut.splits.push_back({{0, cut.text.size()}});
  run(cut);
  return std::string(cut.text.text());
}

}  // namespace moesh::tokenizer
