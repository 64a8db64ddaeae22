// Text tables with aligned columns, for terminals.
#ifndef PACKHOUSE_SERVICE_BASE_COMMAND_LINE_TABLE_H_
#define PACKHOUSE_SERVICE_BASE_COMMAND_LINE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace packhouse {

// Columns are as wide as their widest cell and two spaces apart; the first is flush left, the
// others flush right. Neighbouring columns with the same, non-empty group share a heading above
// their own. Not thread-safe.
class TextTable {
 public:
  struct Column {
    std::string name;
    std::string group;
    // Wider than its cells, for rows that follow later.
    std::size_t min_width = 0;
  };

  explicit TextTable(std::vector<Column> columns);

  // Missing cells at the end are empty. There must not be more cells than columns.
  void AddRow(std::vector<std::string> cells);
  // A line across all columns; it does not widen them.
  void AddHeading(std::string text);

  // Lines that end in a newline and have no trailing spaces.
  std::string Render() const;
  // The same without the names of columns and groups, for rows that follow others.
  std::string RenderBody() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string heading;
  };

  std::string Lines(bool has_head) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// A ratio as a percentage without the sign: 0.98776 gives "98.78".
std::string Percent(double ratio, int decimals = 2);

// The same with two significant digits and the sign, for shares that may be tiny: 0.000015 gives
// "0.0015 %".
std::string SmallPercent(double ratio);

// A whole number in groups of three digits, for prose and pictures: 32901 gives "32,901".
std::string Grouped(uint64_t value);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_COMMAND_LINE_TABLE_H_
