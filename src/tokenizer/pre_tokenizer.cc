#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer/byte_characters.h"
#include "tokenizer/fields.h"
#include "tokenizer/regex_syntax.h"

namespace moesh::tokenizer {
namespace {

constexpr const char* kKnownPreTokenizers =
    "ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, Digits, Punctuation, BertPreTokenizer, "
    "CharDelimiterSplit, FixedLength, "
    "Sequence";
constexpr const char* kWordsOfBytes = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::array<std::pair<const char*, Delimiters>, 5> kDelimiters{
    {{"Removed", Delimiters::removed},
     {"Isolated", Delimiters::isolated},
     {"MergedWithPrevious", Delimiters::merged_with_previous},
     {"MergedWithNext", Delimiters::merged_with_next},
     {"Contiguous", Delimiters::contiguous}}};

Delimiters read_delimiters(const Json& json, const std::string& where) {
  const auto name = member_or<std::string>(json, "behavior", "Isolated", where);
  for (const auto& [known, delimiters] : kDelimiters) {
    if (name == known) return delimiters;
  }
  refuse(fmt::format("a behavior '{}'", shorten(name, 40)), where,
         "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

using Matches = std::vector<Finder::Match>;

// Consecutive parts of one kind become one part.
template <typename Add>
void add_contiguous(const Matches& matches, Add add) {
  for (std::size_t i = 0; i < matches.size();) {
    Bytes part = matches[i].part;
    const bool is_match = matches[i].is_match;
    for (++i; i < matches.size() && matches[i].is_match == is_match; ++i) part.end = matches[i].part.end;
    add(part);
  }
}

// A match is joined to the part before it, but not to another match.
template <typename Add>
void add_merged_with_previous(const Matches& matches, Add add) {
  for (std::size_t i = 0; i < matches.size(); ++i) {
    Bytes part = matches[i].part;
    const bool takes_next = !matches[i].is_match && i + 1 < matches.size() && matches[i + 1].is_match;
    if (takes_next) part.end = matches[++i].part.end;
    add(part);
  }
}

template <typename Add>
void add_merged_with_next(const Matches& matches, Add add) {
  for (std::size_t i = 0; i < matches.size(); ++i) {
    Bytes part = matches[i].part;
    const bool takes_next = matches[i].is_match && i + 1 < matches.size() && !matches[i + 1].is_match;
    if (takes_next) part.end = matches[++i].part.end;
    add(part);
  }
}

template <typename Add>
void add_pieces(const Matches& matches, const CutAt& step, Add add) {
  switch (step.delimiters) {
    case Delimiters::contiguous: return add_contiguous(matches, add);
    case Delimiters::merged_with_previous: return add_merged_with_previous(matches, add);
    case Delimiters::merged_with_next: return add_merged_with_next(matches, add);
    default: break;
  }
  for (const auto& [part, is_match] : matches) {
    if (step.delimiters == Delimiters::isolated || !is_match) add(part);
  }
}

void apply(const CutAt& step, Cut& cut) {
  Finder finder(step.pattern);
  Matches inverted;
  cut_further(cut, [&](Bytes whole, const auto& add) {
    const Matches* matches = &finder.find(cut.text.text(whole));
    if (step.inverts) {
      inverted = *matches;
      for (Finder::Match& match : inverted) match.is_match = !match.is_match;
      matches = &inverted;
    }
    add_pieces(*matches, step, [&](Bytes part) { add({{whole.begin + part.begin, whole.begin + part.end}}); });
  });
}

void apply(const PrefixSpace&, Cut& cut) {
  rewrite(cut, [](const TracedText& text, Bytes part, Revision& to) {
    if (!text.text(part).starts_with(' ')) to.insert(part.begin, " ");
    to.keep(part);
  });
}

void mark_spaces(const std::string& mark, const TracedText& text, Bytes part, Revision& to) {
  const std::string_view all = text.text();
  for (std::uint32_t at = part.begin; at < part.end;) {
    const auto space = static_cast<std::uint32_t>(std::min<std::size_t>(all.find(' ', at), part.end));
    to.keep({at, space});
    at = space;
    if (at < part.end) to.replace({at, at + 1}, mark);
    at += at < part.end ? 1 : 0;
  }
}

void apply(const MarkSpaces& step, Cut& cut) {
  rewrite(cut, [&](const TracedText& text, Bytes part, Revision& to) {
    const std::string_view all = text.text(part);
    const bool is_marked = all.starts_with(' ') || all.starts_with(step.mark);
    const bool is_asked =
        step.scheme == Scheme::always || (step.scheme == Scheme::first && text.origin(part).begin == 0);
    if (is_asked && !is_marked) to.insert(part.begin, step.mark);
    mark_spaces(step.mark, text, part, to);
  });
}

void apply(const AsByteCharacters&, Cut& cut) {
  rewrite(cut, [](const TracedText& text, Bytes part, Revision& to) { write_as_characters(text, part, to); });
}

void apply(const FixedLength& step, Cut& cut) {
  cut_further(cut, [&](Bytes part, const auto& add) {
    while (part.begin < part.end) {
      std::uint32_t end = part.begin;
      for (std::size_t i = 0; i < step.length && end < part.end; ++i)
        end += static_cast<std::uint32_t>(code_point(cut.text.text(), end).bytes);
      add({{part.begin, end}});
      part.begin = end;
    }
  });
}

Pattern words_of_rust(const std::string& where) {
  return Regex(fmt::format("[{0}]+|[^{0}{1}]+", kRustWordCharacters, kSpaceCharacters), where);
}

}  // namespace

Scheme read_scheme(const Json& json, const std::string& where) {
  const auto name = member_or<std::string>(json, "prepend_scheme", "always", where);
  const bool is_known = name == "always" || name == "first" || name == "never";
  const bool adds = member_or<bool>(json, "add_prefix_space", true, where);
  if (!is_known || (!adds && json.contains("prepend_scheme") && name != "never")) {
    refuse(fmt::format("prepend_scheme '{}' with add_prefix_space {}", shorten(name, 40), adds), where,
           "always, first or never");
  }
  if (!adds || name == "never") return Scheme::never;
  return name == "first" ? Scheme::first : Scheme::always;
}

PreTokenizer::PreTokenizer(const Json& json, const std::string& where) { add(json, where); }

void PreTokenizer::add(const Json& json, const std::string& where) {
  const std::string type = type_of(json, where);
  if (type == "Sequence") {
    for (const Json& one : list(json, "pretokenizers", where)) add(one, where);
  } else if (type == "ByteLevel") {
    add_byte_level(json, where);
  } else if (type == "Metaspace") {
    add_metaspace(json, where);
  } else if (type == "Split") {
    steps_.emplace_back(CutAt{read_pattern(child(json, "pattern", where), where), read_delimiters(json, where),
                              member<bool>(json, "invert", where)});
  } else if (type == "Whitespace") {
    steps_.emplace_back(CutAt{words_of_rust(where), Delimiters::removed, true});
  } else if (type == "WhitespaceSplit") {
    steps_.emplace_back(CutAt{&is_white_space, Delimiters::removed});
  } else if (type == "Digits") {
    const bool is_single = member<bool>(json, "individual_digits", where);
    steps_.emplace_back(CutAt{&is_numeric, is_single ? Delimiters::isolated : Delimiters::contiguous});
  } else if (type == "Punctuation") {
    steps_.emplace_back(CutAt{&is_punctuation, read_delimiters(json, where)});
  } else if (type == "BertPreTokenizer") {
    steps_.emplace_back(CutAt{&is_white_space, Delimiters::removed});
    steps_.emplace_back(CutAt{&is_punctuation, Delimiters::isolated});
  } else if (type == "CharDelimiterSplit") {
    steps_.emplace_back(CutAt{read_pattern(Json{{"String", member<std::string>(json, "delimiter", where)}}, where),
                              Delimiters::removed});
  } else if (type == "FixedLength") {
    const auto length = member_or<std::int64_t>(json, "length", 5, where);
    if (length < 1) refuse(fmt::format("words of length {}, 1 or more was expected", length), where);
    steps_.emplace_back(FixedLength{static_cast<std::size_t>(length)});
  } else {
    refuse_type("a pre_tokenizer", type, kKnownPreTokenizers, where);
  }
}

void PreTokenizer::add_byte_level(const Json& json, const std::string& where) {
  if (member<bool>(json, "add_prefix_space", where)) steps_.emplace_back(PrefixSpace{});
  if (member_or<bool>(json, "use_regex", true, where))
    steps_.emplace_back(CutAt{Regex(to_pcre2(kWordsOfBytes, where), where), Delimiters::isolated});
  steps_.emplace_back(AsByteCharacters{});
}

void PreTokenizer::add_metaspace(const Json& json, const std::string& where) {
  const auto mark = member<std::string>(json, "replacement", where);
  if (mark.empty()) refuse("an empty 'replacement' of spaces", where);
  steps_.emplace_back(MarkSpaces{mark, read_scheme(json, where)});
  if (member_or<bool>(json, "split", true, where)) steps_.emplace_back(CutAt{mark, Delimiters::merged_with_next});
}

void PreTokenizer::run(Cut& cut) const {
  for (const PreTokenizerStep& step : steps_) {
    std::visit([&](const auto& one) { apply(one, cut); }, step);
  }
}

bool PreTokenizer::needs_origins() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const PreTokenizerStep& step) {
    const auto* marks = std::get_if<MarkSpaces>(&step);
    return marks != nullptr && marks->scheme == Scheme::first;
  });
}

}  // namespace moesh::tokenizer
