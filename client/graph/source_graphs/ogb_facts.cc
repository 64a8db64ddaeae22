#include "client/graph/source_graphs/ogb_facts.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "service/base/quoted.h"

namespace packhouse::client {
namespace {

// Data sets whose graph is in texts, as OGB's own tables (master.csv) have them, with which
// tests/conformance compares. Those in arrays (data.npz) need no facts.
const std::vector<OgbFacts>& KnownDataSets() {
  static const auto& known = *new std::vector<OgbFacts>{
      {"ogbn-proteins", true, {"node_species"}},
      {"ogbn-products", true, {}},
      {"ogbn-arxiv", false, {"node_year"}},
      {"ogbn-mag", false, {"node_year", "edge_reltype"}},
      {"ogbl-ppa", true, {}},
      {"ogbl-collab", true, {"edge_weight", "edge_year"}},
      {"ogbl-ddi", true, {}},
      {"ogbl-citation2", false, {"node_year"}},
      {"ogbl-wikikg2", false, {"edge_reltype"}},
      {"ogbl-biokg", false, {"edge_reltype"}},
  };
  return known;
}

std::string LastPart(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = fs::absolute(folder, error).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return path.filename().string();
}

}  // namespace

absl::StatusOr<OgbFacts> OgbFactsOf(const std::string& folder, absl::string_view name) {
  if (name == kOgbAsIs) return OgbFacts{std::string(name), false, {}};
  const std::string said = name.empty() ? LastPart(folder) : std::string(name);
  const std::string wanted = absl::StrReplaceAll(said, {{"_", "-"}});
  std::vector<std::string> names;
  for (const OgbFacts& facts : KnownDataSets()) {
    if (facts.name == wanted) return facts;
    names.push_back(facts.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      folder, ": ", Quoted(said), " is none of the data sets of OGB that are known here (",
      absl::StrJoin(names, ", "),
      "), so that nobody can tell whether its edges also go the other way; --ogb-name NAME says "
      "which of them it is, --ogb-name ",
      kOgbAsIs, " takes the edges as the files have them"));
}

}  // namespace packhouse::client
