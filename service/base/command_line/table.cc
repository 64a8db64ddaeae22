#include "service/base/command_line/table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace packhouse {
namespace {

constexpr std::size_t kGap = 2;

// Counts bytes that begin a character. Names and numbers here have no wide or combining characters.
std::size_t DisplayWidth(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void AppendLine(std::string line, std::string& text) {
  line.erase(line.find_last_not_of(' ') + 1);
  absl::StrAppend(&text, line, "\n");
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back({.cells = std::move(cells), .heading = ""});
}

void TextTable::AddHeading(std::string text) {
  rows_.push_back({.cells = {}, .heading = std::move(text)});
}

std::string TextTable::Render() const { return Lines(/*has_head=*/true); }

std::string TextTable::RenderBody() const { return Lines(/*has_head=*/false); }

std::string TextTable::Lines(bool has_head) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = std::max(DisplayWidth(columns_[i].name), columns_[i].min_width);
    for (const Row& row : rows_) {
      if (!row.cells.empty()) width = std::max(width, DisplayWidth(row.cells[i]));
    }
    widths.push_back(width);
  }

  // A group's heading stands centred over its columns, between dashes; they widen to hold it.
  std::string groups;
  bool has_groups = false;
  for (std::size_t begin = 0; begin < columns_.size();) {
    const std::string& group = columns_[begin].group;
    std::size_t end = begin + 1;
    std::size_t width = widths[begin];
    while (end < columns_.size() && !group.empty() && columns_[end].group == group) {
      width += kGap + widths[end++];
    }
    if (width < DisplayWidth(group)) {
      widths[begin] += DisplayWidth(group) - width;
      width = DisplayWidth(group);
    }
    if (begin > 0) groups.append(kGap, ' ');
    if (group.empty()) {
      groups.append(width, ' ');
    } else {
      has_groups = true;
      const std::size_t spare = width - DisplayWidth(group);
      const std::size_t left = spare / 2;
      const std::size_t right = spare - left;
      absl::StrAppend(&groups, std::string(left > 0 ? left - 1 : 0, '-'), left > 0 ? " " : "",
                      group, right > 0 ? " " : "", std::string(right > 0 ? right - 1 : 0, '-'));
    }
    begin = end;
  }

  const auto line_of = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - DisplayWidth(cells[i]), ' ');
      line += i == 0 ? cells[i] + padding : std::string(kGap, ' ') + padding + cells[i];
    }
    return line;
  };
  std::string text;
  if (has_head) {
    if (has_groups) AppendLine(groups, text);
    std::vector<std::string> names;
    for (const Column& column : columns_) names.push_back(column.name);
    AppendLine(line_of(names), text);
  }
  for (const Row& row : rows_)
    AppendLine(row.cells.empty() ? row.heading : line_of(row.cells), text);
  return text;
}

std::string Percent(double ratio, int decimals) {
  return absl::StrFormat("%.*f", decimals, 100 * ratio);
}

std::string SmallPercent(double ratio) {
  const double percent = 100 * ratio;
  // Without an exponent, which %g would give below 0.0001 and above 99.
  if (std::fabs(percent) >= 10) return absl::StrFormat("%.0f %%", percent);
  if (std::fabs(percent) >= 1e-4) return absl::StrFormat("%.2g %%", percent);
  return percent == 0 ? "0 %" : absl::StrFormat("%.6f %%", percent);
}

std::string Grouped(uint64_t value) {
  std::string digits = absl::StrCat(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

}  // namespace packhouse
