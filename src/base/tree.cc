#include "base/tree.h"

#include <algorithm>
#include <string_view>

namespace moesh {
namespace {

class Writer {
 public:
  explicit Writer(const std::vector<std::string>& paths) : paths_(paths) {}

  // Writes the paths [begin, end); their first `skip` characters stand in the lines above.
  void write(std::size_t begin, std::size_t end, std::size_t skip, int indent) {
    while (begin < end) {
      const std::size_t run = end_of_run(begin, end, skip);
      const std::string space(static_cast<std::size_t>(indent), ' ');
      if (run == begin + 1) {
        lines_.push_back({space + paths_[begin].substr(skip), begin});
      } else {
        const std::size_t common = common_folders(begin, run, skip);
        lines_.push_back({space + paths_[begin].substr(skip, common - skip), std::nullopt});
        write(begin, run, common, indent + 2);
      }
      begin = run;
    }
  }

  std::vector<TreeLine> take() { return std::move(lines_); }

 private:
  // The first folder after `skip`, with its slash; empty if only a name is left.
  std::string_view folder(std::size_t path, std::size_t skip) const {
    const std::string_view rest = std::string_view(paths_[path]).substr(skip);
    const std::size_t slash = rest.find('/');
    return slash == std::string_view::npos ? std::string_view() : rest.substr(0, slash + 1);
  }

  std::size_t end_of_run(std::size_t begin, std::size_t end, std::size_t skip) const {
    const std::string_view first = folder(begin, skip);
    std::size_t run = begin + 1;
    while (!first.empty() && run < end && folder(run, skip) == first) ++run;
    return run;
  }

  std::size_t common_folders(std::size_t begin, std::size_t end, std::size_t skip) const {
    while (true) {
      const std::string_view next = folder(begin, skip);
      const bool shared = !next.empty() && end_of_run(begin, end, skip) == end;
      if (!shared) return skip;
      skip += next.size();
    }
  }

  const std::vector<std::string>& paths_;
  std::vector<TreeLine> lines_;
};

}  // namespace

std::vector<TreeLine> tree_of(const std::vector<std::string>& paths, int indent) {
  Writer writer(paths);
  writer.write(0, paths.size(), 0, indent);
  return writer.take();
}

std::vector<TreeLine> list_of(const std::vector<std::string>& paths, int indent) {
  std::vector<TreeLine> lines;
  for (std::size_t i = 0; i < paths.size(); ++i) lines.push_back({std::string(static_cast<std::size_t>(indent), ' ') + paths[i], i});
  return lines;
}

}  // namespace moesh
