#include "client/graph/partition/partition_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/base/command_line/table.h"

namespace packhouse::client {
namespace {

constexpr std::size_t kMaxShownParts = 64;
constexpr uint64_t kPartBarWidth = 32;

// Numbers of parts in ascending order.
std::vector<std::size_t> ShownParts(const PartitionReport& report) {
  std::vector<std::size_t> parts(report.parts.size());
  std::iota(parts.begin(), parts.end(), std::size_t{0});
  if (parts.size() <= kMaxShownParts) return parts;
  std::stable_sort(parts.begin(), parts.end(), [&report](std::size_t a, std::size_t b) {
    return report.parts[a].num_inner_edges > report.parts[b].num_inner_edges;
  });
  parts.erase(parts.begin() + kMaxShownParts / 2, parts.end() - kMaxShownParts / 2);
  std::sort(parts.begin(), parts.end());
  return parts;
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string OverMean(uint64_t value, uint64_t total, std::size_t parts) {
  return absl::StrFormat("%.3f", Share(value, total) * static_cast<double>(parts));
}

// Of `width` letters in all: `first` of the value `a`, `second` of `b`, if `most` is all of them.
std::string Bar(uint64_t a, uint64_t b, uint64_t most, char first, char second) {
  const auto letters = [most](uint64_t value) {
    return static_cast<std::size_t>(std::lround(Share(value, most) * kPartBarWidth));
  };
  const std::size_t in_first = letters(a);
  return std::string(in_first, first) + std::string(letters(a + b) - in_first, second);
}

}  // namespace

std::string PartitionTable(const PartitionReport& report) {
  const Assignment& assignment = report.assignment;
  std::string text = absl::StrCat(
      Grouped(report.num_nodes), " nodes and ", Grouped(report.num_edges), " edges in ",
      Grouped(report.parts.size()), " parts by ", std::string(MethodName(assignment.method)),
      assignment.reason.empty() ? "" : absl::StrCat(": ", assignment.reason), "\n");
  absl::StrAppend(&text, "cut: ", Grouped(assignment.cut_edges), " edges, ",
                  Percent(Share(assignment.cut_edges, report.num_edges)),
                  " %; volume: ", Grouped(assignment.volume), "\n\n");
  TextTable table({{"part", ""},
                   {"nodes", "inner"},
                   {"edges", "inner"},
                   {"nodes", "halo"},
                   {"edges", "halo"},
                   {"cut %", ""},
                   {"nodes", "over the mean"},
                   {"edges", "over the mean"},
                   {"MB", ""}});
  for (const std::size_t number : ShownParts(report)) {
    const ReportedPart& part = report.parts[number];
    table.AddRow({absl::StrCat(number), Grouped(part.num_inner_nodes),
                  Grouped(part.num_inner_edges), Grouped(part.num_halo_nodes),
                  Grouped(part.num_halo_edges),
                  Percent(Share(part.num_cut_edges, part.num_inner_edges)),
                  OverMean(part.num_inner_nodes, report.num_nodes, report.parts.size()),
                  OverMean(part.num_inner_edges, report.num_edges, report.parts.size()),
                  absl::StrFormat("%.1f", static_cast<double>(part.num_bytes) / 1e6)});
  }
  absl::StrAppend(&text, table.Render());
  if (!assignment.balance.empty()) {
    TextTable balance({{"balanced", ""}, {"asked", ""}, {"reached", ""}, {"", ""}});
    for (const BalanceReport& of : assignment.balance) {
      balance.AddRow({of.name, absl::StrFormat("%.3f", of.asked),
                      absl::StrFormat("%.3f", of.achieved),
                      !of.dropped.empty() ? absl::StrCat("given up: ", of.dropped)
                      : of.met            ? "met"
                                          : "missed"});
    }
    absl::StrAppend(&text, "\n", balance.Render());
  }
  for (const std::string& note : assignment.notes) absl::StrAppend(&text, "note: ", note, "\n");
  return text;
}

std::string PartitionPicture(const PartitionReport& report) {
  uint64_t most_nodes = 1;
  uint64_t most_edges = 1;
  for (const ReportedPart& part : report.parts) {
    most_nodes = std::max(most_nodes, part.num_inner_nodes + part.num_halo_nodes);
    most_edges = std::max(most_edges, part.num_inner_edges);
  }
  std::string text = absl::StrFormat("%5s  %-*s  %s\n", "part", static_cast<int>(kPartBarWidth),
                                     "nodes: # inner, . halo", "in-edges: = inside, x cut");
  for (const std::size_t number : ShownParts(report)) {
    const ReportedPart& part = report.parts[number];
    absl::StrAppend(
        &text, absl::StrFormat(
                   "%5d  %-*s  %s\n", number, static_cast<int>(kPartBarWidth),
                   Bar(part.num_inner_nodes, part.num_halo_nodes, most_nodes, '#', '.'),
                   Bar(part.num_inner_edges - std::min(part.num_cut_edges, part.num_inner_edges),
                       part.num_cut_edges, most_edges, '=', 'x')));
  }
  return text;
}

}  // namespace packhouse::client
