#include "service/wings/tfgnn/readout_structure.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse::tfgnn {
namespace {

constexpr absl::string_view kShadow = "_shadow/";

template <typename... Parts>
absl::Status InvalidReadout(absl::string_view readout_set, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("read-out ", Quoted(readout_set), ": ", parts...));
}

bool IsWord(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
}

template <typename Names, typename NameOf>
std::optional<size_t> PositionOf(absl::string_view name, const Names& names, NameOf name_of) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (name_of(names[i]) == name) return i;
  }
  return std::nullopt;
}

std::optional<size_t> NodeSetPosition(absl::string_view name, const SetNames& sets) {
  return PositionOf(name, sets.node_sets, [](const std::string& each) { return each; });
}

std::optional<size_t> EdgeSetPosition(absl::string_view name, const SetNames& sets) {
  return PositionOf(name, sets.edge_sets, [](const SetNames::EdgeSet& each) { return each.name; });
}

// KEY of `_readout/KEY` and `_readout/KEY/SUFFIX`; `rest` is what comes after the first slash.
std::optional<std::string> KeyOf(absl::string_view rest) {
  const size_t slash = rest.find('/');
  const absl::string_view key = rest.substr(0, slash);
  if (!IsWord(key)) return std::nullopt;
  if (slash != absl::string_view::npos && slash + 1 == rest.size()) return std::nullopt;
  return std::string(key);
}

}  // namespace

bool IsReadoutSet(absl::string_view node_set) {
  return node_set == kReadout || (absl::ConsumePrefix(&node_set, "_readout:") && IsWord(node_set));
}

absl::StatusOr<ReadoutStructure> FindReadout(const SetNames& sets, absl::string_view readout_set) {
  if (!IsReadoutSet(readout_set)) {
    return InvalidReadout(readout_set, "its name is neither _readout nor _readout:TAG");
  }
  const std::optional<size_t> node_set = NodeSetPosition(readout_set, sets);
  if (!node_set) return InvalidReadout(readout_set, "there is no node set of this name");
  ReadoutStructure structure;
  structure.node_set = *node_set;
  std::map<std::string, std::vector<ReadoutSource>> keys;
  std::set<std::pair<std::string, std::string>> seen;
  for (size_t e = 0; e < sets.edge_sets.size(); ++e) {
    const SetNames::EdgeSet& edges = sets.edge_sets[e];
    absl::string_view rest = edges.name;
    if (!absl::ConsumePrefix(&rest, absl::StrCat(readout_set, "/")) && rest != readout_set)
      continue;
    const std::optional<std::string> key = edges.name == readout_set ? std::nullopt : KeyOf(rest);
    if (!key) {
      return InvalidReadout(readout_set, "the name of edge set ", Quoted(edges.name),
                            " is neither ", readout_set, "/KEY nor ", readout_set, "/KEY/SUFFIX");
    }
    if (edges.target != readout_set) {
      return InvalidReadout(readout_set, "edge set ", Quoted(edges.name), " has the target ",
                            Quoted(edges.target));
    }
    if (!seen.insert({*key, edges.source}).second) {
      return InvalidReadout(readout_set, "edge set ", Quoted(edges.name), " is the second of key ",
                            Quoted(*key), " from node set ", Quoted(edges.source));
    }
    ReadoutSource source;
    source.edge_set = e;
    absl::string_view shadowed = edges.source;
    source.is_edge_set = absl::ConsumePrefix(&shadowed, kShadow);
    const std::optional<size_t> rows_of =
        source.is_edge_set ? EdgeSetPosition(shadowed, sets) : NodeSetPosition(edges.source, sets);
    if (!rows_of) {
      return InvalidReadout(readout_set, "edge set ", Quoted(edges.name), " reads from the ",
                            source.is_edge_set ? "edge set " : "node set ", Quoted(shadowed),
                            ", which is not there");
    }
    source.rows_of = *rows_of;
    keys[*key].push_back(source);
  }
  if (keys.empty()) {
    return InvalidReadout(readout_set, "there is no edge set ", readout_set, "/KEY");
  }
  structure.keys.assign(keys.begin(), keys.end());
  return structure;
}

}  // namespace packhouse::tfgnn
