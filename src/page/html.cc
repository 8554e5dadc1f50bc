#include "page/html.h"

#include <fmt/core.h>

namespace moesh::page {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--back:#fff;--text:#1c1e21;--faint:#626971;--grid:#e3e6ea;--panel:#f6f7f9;
--c0:#1f6fb4;--c1:#d1602a;--c2:#3a8f47;--c3:#8b4fa8;--c4:#b4881f;--c5:#c23b72}
@media(prefers-color-scheme:dark){:root{--back:#14171a;--text:#e6e8ea;--faint:#9aa3ad;--grid:#2b3138;--panel:#1c2126;
--c0:#6db3f2;--c1:#f0946a;--c2:#7fcf8c;--c3:#c99be0;--c4:#e0bd66;--c5:#ee86b0}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:1280px;background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.4rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{color:var(--faint);margin:.25rem 0 1rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:1rem}
figure{margin:0;padding:.75rem;background:var(--panel);border-radius:8px;min-width:0}
figcaption{color:var(--faint);font-size:.9rem;margin-bottom:.35rem;overflow-wrap:anywhere}
svg{width:100%;height:auto;display:block}svg text{font-size:11px;fill:var(--faint)}.grid{stroke:var(--grid)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;min-width:100%}
th,td{text-align:left;padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--grid);vertical-align:top;overflow-wrap:anywhere}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.key{display:inline-block;width:.8em;height:.8em;border-radius:50%;margin-right:.4em}
)";

const char* class_of(const Heading& heading) { return heading.is_number ? " class=\"n\"" : ""; }

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

Cell number_cell(std::string text, double order) { return {std::move(text), fmt::format("{:.9g}", order)}; }

std::string to_html(const Table& table, bool is_sortable) {
  std::string made =
      fmt::format("<div class=\"scroll\"><table{}><thead><tr>", is_sortable ? " class=\"sortable\"" : "");
  for (const Heading& heading : table.headings)
    made += fmt::format("<th{}>{}</th>", class_of(heading), escaped(heading.title));
  made += "</tr></thead><tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    made += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string order =
          is_sortable && !row[i].order.empty() ? fmt::format(" data-v=\"{}\"", escaped(row[i].order)) : "";
      made += fmt::format("<td{}{}>{}</td>", class_of(table.headings[i]), order, escaped(row[i].text));
    }
    made += "</tr>\n";
  }
  return made + "</tbody></table></div>\n";
}

std::string to_html(const Page& page) {
  const std::string title = escaped(page.title);
  std::string made = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">"
      "<link rel=\"icon\" href=\"data:,\"><title>{}</title><style>{}{}</style></head><body>\n{}",
      title, kStyle, page.style, page.body);
  if (!page.script.empty()) made += "<script>" + page.script + "</script>\n";
  return made + "</body></html>\n";
}

}  // namespace moesh::page
