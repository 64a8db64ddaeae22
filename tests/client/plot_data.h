// Reads the data blocks of gnuplot scripts, for tests of what a picture shows.
#ifndef PACKHOUSE_TESTS_CLIENT_PLOT_DATA_H_
#define PACKHOUSE_TESTS_CLIENT_PLOT_DATA_H_

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace packhouse::client {

// The rows between `$name << EOD` and `EOD`; fails the test where something is no number.
inline std::vector<std::vector<double>> PlotRows(const std::string& script,
                                                 const std::string& name) {
  std::vector<std::vector<double>> rows;
  bool inside = false;
  for (const absl::string_view line : absl::StrSplit(script, '\n')) {
    if (line == absl::StrCat("$", name, " << EOD")) {
      inside = true;
    } else if (line == "EOD") {
      inside = false;
    } else if (inside) {
      rows.emplace_back();
      for (const absl::string_view word : absl::StrSplit(line, ' ')) {
        double value = 0;
        EXPECT_TRUE(absl::SimpleAtod(word, &value)) << word;
        rows.back().push_back(value);
      }
    }
  }
  return rows;
}

inline bool HasPlotRows(const std::string& script, const std::string& name) {
  return absl::StrContains(script, absl::StrCat("$", name, " << EOD\n"));
}

}  // namespace packhouse::client

#endif  // PACKHOUSE_TESTS_CLIENT_PLOT_DATA_H_
