#include "service/wings/partition_mpi/runs/own_classes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/mask_classes.h"
#include "service/wings/partition/cutting/node_classes.h"

namespace packhouse {
namespace {

// The numbers of one column for own rows.
absl::StatusOr<std::vector<int64_t>> OwnNumbers(const ChunkedInput& input, size_t type,
                                                const std::string& column, uint64_t begin,
                                                uint64_t end) {
  const ChunkedNodeType& set = input.node_types[type];
  for (const ChunkedTable& table : set.features) {
    if (table.name != column) continue;
    PH_ASSIGN_OR_RETURN(const FeatureRows rows,
                        FeatureRows::Open(input.folder, table, set.num_nodes, begin, end));
    std::vector<int64_t> numbers;
    for (uint64_t row = begin; row < end; ++row) {
      const absl::StatusOr<int64_t> number = rows.Number(row);
      if (!number.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "column ", Quoted(column), " of ", Quoted(set.name), " ", number.status().message()));
      }
      numbers.push_back(*number);
    }
    return numbers;
  }
  return absl::NotFoundError(
      absl::StrCat("node set ", Quoted(set.name), " has no column ", Quoted(column)));
}

absl::Status TooManyValues(const std::string& column, const std::string& set) {
  return absl::InvalidArgumentError(absl::StrCat("column ", Quoted(column), " of ", Quoted(set),
                                                 " has more than ", PartitionOptions::kMaxClasses,
                                                 " different values"));
}

// A class for each different value that any rank has, in ascending order of values.
absl::StatusOr<OwnClasses> ClassesOfValues(Ranks& ranks, const ChunkedInput& input, size_t type,
                                           const std::string& column, uint64_t begin,
                                           uint64_t end) {
  const std::string& name = input.node_types[type].name;
  absl::StatusOr<std::vector<int64_t>> numbers = OwnNumbers(input, type, column, begin, end);
  absl::Status status = numbers.status();
  std::string told;
  if (numbers.ok()) {
    absl::btree_set<int64_t> values;
    for (const int64_t number : *numbers) {
      values.insert(number);
      if (values.size() <= PartitionOptions::kMaxClasses) continue;
      status = TooManyValues(column, name);
      break;
    }
    for (const int64_t value : values) {
      told.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  PH_RETURN_IF_ERROR(Agree(ranks, status));
  absl::btree_set<int64_t> all;
  for (const std::string& of_rank : ranks.Gather(told)) {
    for (size_t at = 0; at < of_rank.size(); at += sizeof(int64_t)) {
      int64_t value;
      std::memcpy(&value, of_rank.data() + at, sizeof(value));
      all.insert(value);
    }
  }
  if (all.size() > PartitionOptions::kMaxClasses) return TooManyValues(column, name);
  const std::vector<int64_t> values(all.begin(), all.end());
  OwnClasses classes;
  classes.node_type = type;
  classes.num_classes = std::max<uint32_t>(static_cast<uint32_t>(values.size()), 1);
  for (const int64_t number : *numbers) {
    classes.class_of.push_back(static_cast<uint16_t>(
        std::lower_bound(values.begin(), values.end(), number) - values.begin()));
  }
  return classes;
}

// As ClassesFromMasks(), of combinations that any rank has.
absl::StatusOr<OwnClasses> ClassesOfMasks(Ranks& ranks, const ChunkedInput& input, size_t type,
                                          const std::vector<std::string>& masks, uint64_t begin,
                                          uint64_t end) {
  const std::vector<absl::string_view> names(masks.begin(), masks.end());
  const std::string& set = input.node_types[type].name;
  absl::Status status;
  if (masks.size() >= PartitionOptions::kMaxClasses) {
    status = absl::InvalidArgumentError(
        absl::StrCat(masks.size(), " masks, beyond ", PartitionOptions::kMaxClasses - 1));
  }
  MaskClasses own(masks.size(), end - begin);
  for (uint16_t m = 0; m < masks.size() && status.ok(); ++m) {
    const absl::StatusOr<std::vector<int64_t>> numbers =
        OwnNumbers(input, type, masks[m], begin, end);
    status = numbers.status();
    if (!status.ok()) break;
    for (size_t i = 0; i < numbers->size() && status.ok(); ++i) {
      if ((*numbers)[i] != 0 && !own.Add(m, i)) status = TooManyCombinations(set, names);
    }
  }
  std::string told;  // Of each combination its length and its masks.
  if (status.ok()) {
    const auto tell = [&told](uint16_t value) {
      told.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    const absl::btree_set<MaskClasses::Combination> combinations = own.Combinations();
    if (combinations.size() > PartitionOptions::kMaxClasses) {
      status = TooManyCombinations(set, names);
    }
    for (const MaskClasses::Combination& combination : combinations) {
      tell(static_cast<uint16_t>(combination.size()));
      for (const uint16_t mask : combination) tell(mask);
    }
  }
  PH_RETURN_IF_ERROR(Agree(ranks, status));
  absl::btree_set<MaskClasses::Combination> all;
  for (const std::string& of_rank : ranks.Gather(told)) {
    std::vector<uint16_t> values(of_rank.size() / sizeof(uint16_t));
    if (!values.empty()) std::memcpy(values.data(), of_rank.data(), of_rank.size());
    for (auto at = values.begin(); at != values.end(); at += *at + 1) {
      all.insert(MaskClasses::Combination(at + 1, at + 1 + *at));
    }
  }
  OwnClasses classes;
  classes.node_type = type;
  classes.num_classes = static_cast<uint32_t>(masks.size() + 1 + all.size());
  if (classes.num_classes > PartitionOptions::kMaxClasses) return TooManyCombinations(set, names);
  classes.class_of = own.Classes(all);
  classes.names.resize(masks.size() + 1);
  for (const MaskClasses::Combination& combination : all) {
    classes.names.push_back(CombinationName(combination, names));
  }
  return classes;
}

}  // namespace

absl::StatusOr<std::vector<OwnClasses>> ReadOwnClasses(Ranks& ranks, const ChunkedInput& input,
                                                       const PartitionPlan& plan, uint64_t begin,
                                                       uint64_t end) {
  std::vector<OwnClasses> all;
  uint64_t num_classes = input.types.node_types.size();
  for (const PlannedClasses& given : plan.classes) {
    const auto found =
        std::find_if(input.node_types.begin(), input.node_types.end(),
                     [&given](const auto& type) { return type.name == given.node_set; });
    if (found == input.node_types.end()) {
      return absl::NotFoundError(
          absl::StrCat("balance_node_sets: there is no node set ", Quoted(given.node_set)));
    }
    const auto type = static_cast<size_t>(found - input.node_types.begin());
    for (const OwnClasses& before : all) {
      if (before.node_type == type) {
        return absl::InvalidArgumentError(
            absl::StrCat("node set ", Quoted(given.node_set), " has classes twice"));
      }
    }
    const SharedNodeType& nodes = input.types.node_types[type];
    const uint64_t first = std::clamp(begin, nodes.start, nodes.end()) - nodes.start;
    const uint64_t last = std::clamp(end, nodes.start, nodes.end()) - nodes.start;
    absl::StatusOr<OwnClasses> classes =
        given.columns.size() == 1
            ? ClassesOfValues(ranks, input, type, given.columns[0], first, last)
            : ClassesOfMasks(ranks, input, type, given.columns, first, last);
    PH_RETURN_IF_ERROR(classes.status());
    num_classes += classes->num_classes - 1;
    all.push_back(*std::move(classes));
  }
  if (num_classes > PartitionOptions::kMaxClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_classes, " classes of nodes (each node set without is one), beyond ",
                     PartitionOptions::kMaxClasses));
  }
  return all;
}

}  // namespace packhouse
