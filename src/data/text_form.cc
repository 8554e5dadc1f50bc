#include "data/text_form.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/shell.h"

namespace moesh::data {
namespace {

using namespace std::string_view_literals;

struct Form {
  std::string_view begin;  // the first bytes of such a file
  std::string_view words;
  std::string_view remedy;
  bool is_command = true;   // before the file's path
};

constexpr std::string_view kByPandas =
    "dataset_type=jsonl, of what pandas makes: read_parquet or read_feather, then to_json(NEW_FILE, orient=\"records\", lines=True)";

constexpr Form kForms[] = {
    {"\x1f\x8b"sv, "compressed by gzip", "gunzip"},
    {"\x28\xb5\x2f\xfd"sv, "compressed by zstd", "unzstd"},
    {"\xfd\x37zXZ"sv, "compressed by xz", "unxz"},
    {"BZh91AY&SY"sv, "compressed by bzip2", "bunzip2"},
    {"PK\x03\x04"sv, "a ZIP archive", "unzip"},
    {"PAR1"sv, "in Parquet", kByPandas, false},
    {"ARROW1"sv, "in Arrow", kByPandas, false},
    {"\xff\xfe"sv, "in UTF-16", "iconv -f UTF-16 -t UTF-8 -o NEW_FILE"},
    {"\xfe\xff"sv, "in UTF-16", "iconv -f UTF-16 -t UTF-8 -o NEW_FILE"},
};

constexpr std::int64_t kLongestBegin = 10;

const Form* form_of(const DataFiles& files, const DataFile& file) {
  const std::string begin = files.text(file, 0, std::min(file.bytes, kLongestBegin));
  const auto found = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& form) { return begin.starts_with(form.begin); });
  return found == std::end(kForms) ? nullptr : &*found;
}

}  // namespace

void check_form(const DataFiles& files) {
  const std::vector<DataFile>& all = files.files();
  const auto odd = std::find_if(all.begin(), all.end(), [&](const DataFile& file) { return form_of(files, file) != nullptr; });
  if (odd == all.end()) return;
  const Form* const form = form_of(files, *odd);
  if (std::all_of(all.begin(), all.end(), [&](const DataFile& file) { return form_of(files, file) != nullptr; })) {
    refuse(fmt::format("the file is {}, plain text was expected", form->words), odd->path,
           form->is_command ? fmt::format("{} {}", form->remedy, shell_word(odd->path)) : std::string(form->remedy));
  }
  log_warning(fmt::format("{}: the file is {}, and its bytes are taken as they are", odd->path, form->words));
}

}  // namespace moesh::data
