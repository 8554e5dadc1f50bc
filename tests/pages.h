// Checks that hold for every HTML page that moesh writes.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moesh::test {

// Every element that is opened is closed, in the right order.
inline void expect_well_formed(const std::string& page) {
  std::vector<std::string> open;
  const std::string scriptless = page.substr(0, page.find("<script>"));
  for (std::size_t at = scriptless.find('<'); at != std::string::npos; at = scriptless.find('<', at + 1)) {
    const std::size_t end = scriptless.find('>', at);
    ASSERT_NE(end, std::string::npos) << scriptless.substr(at, 80);
    const std::string inside = scriptless.substr(at + 1, end - at - 1);
    EXPECT_EQ(inside.find('<'), std::string::npos) << inside.substr(0, 80);
    const bool closes = inside.starts_with('/');
    std::string name;
    for (const char c : inside.substr(closes ? 1 : 0)) {
      if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) break;
      name += c;
    }
    if (inside.ends_with('/') || inside.starts_with('!') || name == "meta" || name == "link" || name == "img" || name == "br" || name == "input") continue;
    if (!closes) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << name;
    ASSERT_EQ(open.back(), name) << scriptless.substr(at > 200 ? at - 200 : 0, 220);
    open.pop_back();
  }
  const std::vector<std::string> left = page.size() == scriptless.size() ? std::vector<std::string>{} : std::vector<std::string>{"html", "body"};
  EXPECT_EQ(open, left);
}

}  // namespace moesh::test
