#include "client/cli/source_graphs/seeds_file.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/source_graphs/negative_links.h"
#include "client/cpp/little_endian.h"
#include "client/graph/source_graphs/csv_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/graph_files/field_values.h"
#include "service/graphs/dtype.h"

namespace packhouse::client {
namespace {

constexpr size_t kIdsOfRequest = size_t{1} << 16;
constexpr uint32_t kNoNode = std::numeric_limits<uint32_t>::max();

// What the file says, unchecked by the graph.
struct SeedRows {
  bool are_links = false;
  // Of nodes, or the sources and the targets of links.
  std::vector<std::string> nodes[2];
  bool has_times = false;
  std::vector<int64_t> times;
  // Of each column of SubGraphs.readout_columns that the file has: its elements.
  std::vector<std::string> features;

  size_t size() const { return nodes[0].size(); }
};

std::optional<size_t> ColumnOf(const std::vector<std::string>& header, absl::string_view name) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found == header.end()) return std::nullopt;
  return static_cast<size_t>(found - header.begin());
}

class SeedRowsReader {
 public:
  SeedRowsReader(const CsvFile& file, const std::string& by, const v1::SubGraphs& sub_graphs)
      : file_(file), by_(by), sub_graphs_(sub_graphs) {}

  // Of the file's first record.
  absl::Status ReadHeader(bool with_features) {
    for (const absl::string_view name : file_.fields()) header_.emplace_back(name);
    const std::optional<size_t> source = ColumnOf(header_, "source");
    const std::optional<size_t> target = ColumnOf(header_, "target");
    const std::optional<size_t> node = ColumnOf(header_, by_);
    if (source.has_value() && target.has_value() && !node.has_value()) {
      rows_.are_links = true;
      places_ = {*source, *target};
    } else if (node.has_value() && !source.has_value() && !target.has_value()) {
      places_ = {*node};
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": has the columns ", absl::StrJoin(header_, ", "),
                       "; needs either ", Quoted(by_), " (--seeds-by) or 'source' and 'target'"));
    }
    if (!with_features) return absl::OkStatus();
    time_ = ColumnOf(header_, "time");
    rows_.has_times = time_.has_value();
    rows_.features.resize(static_cast<size_t>(sub_graphs_.readout_columns_size()));
    for (const v1::SourceColumn& column : sub_graphs_.readout_columns()) {
      features_.push_back(ColumnOf(header_, column.name()));
    }
    return absl::OkStatus();
  }

  absl::Status ReadRow() {
    if (file_.fields().size() != header_.size()) {
      return file_.InLine(absl::InvalidArgumentError(
          absl::StrCat("has ", file_.fields().size(), " fields, the header has ", header_.size())));
    }
    for (size_t end = 0; end < places_.size(); ++end) {
      const absl::string_view text = file_.fields()[places_[end]];
      if (text.empty()) return Bad(places_[end], absl::InvalidArgumentError("is empty"));
      rows_.nodes[end].emplace_back(text);
    }
    if (time_.has_value()) {
      rows_.times.emplace_back();
      PH_RETURN_IF_ERROR(
          Bad(*time_, graph_files::ParseInt64(file_.fields()[*time_], &rows_.times.back())));
    }
    for (size_t i = 0; i < features_.size(); ++i) {
      if (!features_[i].has_value()) continue;
      const auto& column = sub_graphs_.readout_columns(static_cast<int>(i));
      const auto dtype = static_cast<DType>(static_cast<int>(column.dtype()) - 1);
      PH_RETURN_IF_ERROR(Bad(
          *features_[i],
          graph_files::AppendElement(file_.fields()[*features_[i]], dtype, &rows_.features[i])));
    }
    return absl::OkStatus();
  }

  SeedRows Take() && { return std::move(rows_); }

 private:
  // `status`, if it is an error, with file, line and column.
  absl::Status Bad(size_t column, const absl::Status& status) const {
    if (status.ok()) return status;
    return file_.InLine(absl::Status(
        status.code(), absl::StrCat("column ", Quoted(header_[column]), ": ", status.message())));
  }

  const CsvFile& file_;
  const std::string& by_;
  const v1::SubGraphs& sub_graphs_;
  std::vector<std::string> header_;
  std::vector<size_t> places_;
  std::optional<size_t> time_;
  std::vector<std::optional<size_t>> features_;
  SeedRows rows_;
};

absl::StatusOr<SeedRows> ReadSeedRows(const std::string& path, const std::string& by,
                                      const v1::SubGraphs& sub_graphs, bool with_features) {
  PH_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
  PH_ASSIGN_OR_RETURN(const bool has_header, file->Next());
  if (!has_header) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  SeedRowsReader reader(*file, by, sub_graphs);
  PH_RETURN_IF_ERROR(reader.ReadHeader(with_features));
  while (true) {
    PH_ASSIGN_OR_RETURN(const bool has_record, file->Next());
    if (!has_record) return std::move(reader).Take();
    PH_RETURN_IF_ERROR(reader.ReadRow());
  }
}

absl::Status NoNumber(const std::string& path, const std::string& by, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", Quoted(text), " is no ", by, " of a node, a whole number from 0"));
}

absl::Status AppendIds(const std::string& path, const std::vector<std::string>& texts,
                       v1::NodeIdKind kind, v1::NodeIds& ids) {
  if (kind == v1::NODE_ID_KIND_TEXT) {
    v1::TextIds& text = *ids.mutable_text();
    for (const std::string& each : texts) {
      const auto length = static_cast<uint32_t>(each.size());
      text.mutable_data()->append(each);
      AppendLittleEndian(absl::MakeConstSpan(&length, 1), *text.mutable_lengths());
    }
    return absl::OkStatus();
  }
  for (const std::string& each : texts) {
    int64_t id = 0;
    const absl::Status status = graph_files::ParseInt64(each, &id);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", status.message(), ", as the graph's ids are"));
    }
    AppendLittleEndian(absl::MakeConstSpan(&id, 1), *ids.mutable_integers());
  }
  return absl::OkStatus();
}

// Whole numbers of T.
template <typename T>
absl::Status AppendWhole(const std::string& path, const std::string& by,
                         const std::vector<std::string>& texts, std::string& bytes) {
  for (const std::string& each : texts) {
    T value = 0;
    const bool is_plain = std::all_of(each.begin(), each.end(), absl::ascii_isdigit);
    if (!is_plain || !absl::SimpleAtoi(each, &value)) return NoNumber(path, by, each);
    AppendLittleEndian(absl::MakeConstSpan(&value, 1), bytes);
  }
  return absl::OkStatus();
}

// One file's links as numbers of nodes of a graph.
class LinkNumbers {
 public:
  LinkNumbers(const v1::SourceGraph& graph, const SourceGraphClient& client)
      : graph_(graph), client_(client) {}

  // INVALID_ARGUMENT if the options do not say which sets the links are between.
  absl::Status FindSets(const v1::SubGraphs& sub_graphs) {
    std::string sets[2] = {sub_graphs.link_node_set(), sub_graphs.link_node_set()};
    for (const v1::SourceEdgeSet& edges : graph_.schema().edge_sets()) {
      if (edges.name() != sub_graphs.link_edge_set()) continue;
      sets[0] = edges.source();
      sets[1] = edges.target();
    }
    if (sets[0].empty()) {
      return absl::InvalidArgumentError(
          sub_graphs.link_edge_set().empty()
              ? "which nodes the links are between is not known: give --link-edge-set or "
                "--link-node-set"
              : absl::StrCat("--link-edge-set: there is no edge set ",
                             Quoted(sub_graphs.link_edge_set())));
    }
    for (int end = 0; end < 2; ++end) {
      for (int i = 0; i < graph_.schema().node_sets_size(); ++i) {
        if (graph_.schema().node_sets(i).name() == sets[end]) sets_[end] = i;
      }
      if (sets_[end] < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("--link-node-set: there is no node set ", Quoted(sets[end])));
      }
    }
    return absl::OkStatus();
  }

  uint64_t NodesOf(int end) const { return graph_.num_nodes(sets_[end]); }

  absl::StatusOr<std::vector<Link>> Of(const std::string& path, const std::string& by,
                                       const SeedRows& rows) const {
    std::vector<Link> links(rows.size());
    for (int end = 0; end < 2; ++end) {
      PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> numbers,
                          NumbersOf(path, by, end, rows.nodes[end]));
      for (size_t i = 0; i < links.size(); ++i) {
        (end == 0 ? links[i].first : links[i].second) = numbers[i];
      }
    }
    return links;
  }

 private:
  absl::StatusOr<std::vector<uint32_t>> NumbersOf(const std::string& path, const std::string& by,
                                                  int end,
                                                  const std::vector<std::string>& texts) const {
    const v1::SourceNodeSet& set = graph_.schema().node_sets(sets_[end]);
    std::vector<uint32_t> numbers;
    for (size_t begin = 0; begin < texts.size(); begin += kIdsOfRequest) {
      const std::vector<std::string> piece(
          texts.begin() + static_cast<std::ptrdiff_t>(begin),
          texts.begin() +
              static_cast<std::ptrdiff_t>(std::min(texts.size(), begin + kIdsOfRequest)));
      v1::LookupNodesRequest request;
      request.set_graph(graph_.name());
      request.set_node_set(set.name());
      if (by == "id") {
        PH_RETURN_IF_ERROR(AppendIds(path, piece, set.id_kind(), *request.mutable_ids()));
      } else if (by == "row") {
        PH_RETURN_IF_ERROR(AppendWhole<uint64_t>(path, by, piece, *request.mutable_rows()));
      } else {
        PH_RETURN_IF_ERROR(AppendWhole<uint32_t>(path, by, piece, *request.mutable_numbers()));
      }
      PH_ASSIGN_OR_RETURN(const v1::LookupNodesResponse found, client_.Lookup(request));
      if (found.numbers().size() != piece.size() * sizeof(uint32_t)) {
        return absl::InternalError("the server answers with another number of nodes");
      }
      for (size_t i = 0; i < piece.size(); ++i) {
        const auto number =
            LoadLittleEndian<uint32_t>(found.numbers().data() + i * sizeof(uint32_t));
        if (number == kNoNode) {
          return absl::NotFoundError(absl::StrCat(path, ": no node of ", Quoted(set.name()),
                                                  " has the ", by, " ", Quoted(piece[i])));
        }
        numbers.push_back(number);
      }
    }
    return numbers;
  }

  const v1::SourceGraph& graph_;
  const SourceGraphClient& client_;
  int sets_[2] = {-1, -1};
};

absl::Status AddNodes(const SeedsFileOptions& options, const SeedRows& rows,
                      const v1::SourceGraph& graph, v1::Seeds& seeds) {
  if (options.by == "row") {
    return AppendWhole<uint64_t>(options.path, options.by, rows.nodes[0], *seeds.mutable_rows());
  }
  if (options.by == "number") {
    return AppendWhole<uint32_t>(options.path, options.by, rows.nodes[0], *seeds.mutable_numbers());
  }
  const auto is_text = [](const v1::SourceNodeSet& set) {
    return set.id_kind() == v1::NODE_ID_KIND_TEXT;
  };
  const auto& sets = graph.schema().node_sets();
  const bool has_texts = std::any_of(sets.begin(), sets.end(), is_text);
  if (has_texts && !std::all_of(sets.begin(), sets.end(), is_text)) {
    return absl::InvalidArgumentError(
        "--seeds-by id: some node sets of the graph have whole numbers as ids, others texts; give "
        "rows or numbers");
  }
  return AppendIds(options.path, rows.nodes[0],
                   has_texts ? v1::NODE_ID_KIND_TEXT : v1::NODE_ID_KIND_INTEGER,
                   *seeds.mutable_ids());
}

// Adds negative links to `links`, their times to `times`, and the labels of all to `labels`.
absl::Status AddNegatives(const SeedsFileOptions& options, const LinkNumbers& numbers,
                          std::vector<Link>& links, std::vector<int64_t>& times,
                          std::vector<int64_t>& labels) {
  NegativeLinkOptions drawn;
  drawn.amount = options.amount;
  drawn.keep_sources = options.negatives == "triplet";
  drawn.seed = options.seed;
  drawn.num_sources = numbers.NodesOf(0);
  drawn.num_targets = numbers.NodesOf(1);
  if (!options.avoid.empty()) {
    PH_ASSIGN_OR_RETURN(const SeedRows known,
                        ReadSeedRows(options.avoid, options.by, {}, /*with_features=*/false));
    if (!known.are_links) {
      return absl::InvalidArgumentError(
          absl::StrCat("--avoid: ", options.avoid, ": has no columns 'source' and 'target'"));
    }
    PH_ASSIGN_OR_RETURN(drawn.avoid, numbers.Of(options.avoid, options.by, known));
  }
  PH_ASSIGN_OR_RETURN(const std::vector<NegativeLink> negatives, DrawNegativeLinks(links, drawn));
  labels.assign(links.size(), 1);
  labels.resize(links.size() + negatives.size(), 0);
  for (const NegativeLink& negative : negatives) {
    links.push_back(negative.link);
    if (!times.empty()) times.push_back(times[negative.beside]);
  }
  return absl::OkStatus();
}

// Every column of `sub_graphs` must have its values: from the file, or as `labels`.
absl::Status AddFeatures(const SeedsFileOptions& options, const v1::SubGraphs& sub_graphs,
                         const std::vector<int64_t>& labels, SeedRows& rows, v1::Seeds& seeds) {
  for (int i = 0; i < sub_graphs.readout_columns_size(); ++i) {
    const std::string& name = sub_graphs.readout_columns(i).name();
    std::string& data = rows.features[static_cast<size_t>(i)];
    if (!options.negatives.empty()) {
      if (name != kLabelOfLinks) {
        return absl::InvalidArgumentError(absl::StrCat("--readout-column: ", Quoted(name),
                                                       " has no value of a negative link; only ",
                                                       Quoted(kLabelOfLinks), " is known of it"));
      }
      data.clear();
      AppendLittleEndian(absl::MakeConstSpan(labels), data);
    } else if (data.empty() && rows.size() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--readout-column: ", options.path, " has no column ", Quoted(name)));
    }
    v1::SourceColumnRows& column = *seeds.add_readout();
    column.set_name(name);
    column.set_data(std::move(data));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddReadoutColumns(const std::vector<std::string>& names, v1::SubGraphs& sub_graphs) {
  for (const std::string& said : names) {
    const size_t at = said.rfind('=');
    const std::string dtype = at == std::string::npos ? "int64" : said.substr(at + 1);
    v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
    const std::string value = absl::StrCat("DATA_TYPE_", absl::AsciiStrToUpper(dtype));
    if (!v1::DataType_Parse(value, &type) || type == v1::DATA_TYPE_UNSPECIFIED) {
      return absl::InvalidArgumentError(absl::StrCat("--readout-column: ", Quoted(said),
                                                     " is not NAME=DTYPE, such as label=int64"));
    }
    v1::SourceColumn& column = *sub_graphs.add_readout_columns();
    column.set_name(said.substr(0, at));
    column.set_dtype(type);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Seeds> ReadSeedsFile(const SeedsFileOptions& options,
                                        const v1::SubGraphs& sub_graphs,
                                        const SourceGraphClient& client) {
  PH_ASSIGN_OR_RETURN(SeedRows rows, ReadSeedRows(options.path, options.by, sub_graphs,
                                                  /*with_features=*/true));
  if (rows.has_times && sub_graphs.seeds_per_graph() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, ": has a column 'time' for each seed, and --seeds-per-graph is ",
                     sub_graphs.seeds_per_graph(), ": times are those of sub-graphs"));
  }
  PH_ASSIGN_OR_RETURN(const v1::SourceGraph graph, client.Get(sub_graphs.graph()));
  v1::Seeds seeds;
  std::vector<int64_t> labels;
  if (!rows.are_links) {
    if (!options.negatives.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--negatives: ", options.path, " has nodes; links need columns 'source' and 'target'"));
    }
    PH_RETURN_IF_ERROR(AddNodes(options, rows, graph, seeds));
  } else {
    LinkNumbers numbers(graph, client);
    PH_RETURN_IF_ERROR(numbers.FindSets(sub_graphs));
    PH_ASSIGN_OR_RETURN(std::vector<Link> links, numbers.Of(options.path, options.by, rows));
    if (!options.negatives.empty()) {
      PH_RETURN_IF_ERROR(AddNegatives(options, numbers, links, rows.times, labels));
    }
    std::vector<uint32_t> ends;
    for (const auto& [source, target] : links) {
      ends.push_back(static_cast<uint32_t>(source));
      ends.push_back(static_cast<uint32_t>(target));
    }
    AppendLittleEndian(absl::MakeConstSpan(ends), *seeds.mutable_numbers());
  }
  AppendLittleEndian(absl::MakeConstSpan(rows.times), *seeds.mutable_times());
  PH_RETURN_IF_ERROR(AddFeatures(options, sub_graphs, labels, rows, seeds));
  return seeds;
}

}  // namespace packhouse::client
