#include "service/wings/graphs/services/wire_sampling.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/graphs/services/wire_source_graphs.h"

namespace packhouse {
namespace {

absl::Status CheckMultiple(absl::string_view field, size_t bytes, size_t unit) {
  if (bytes % unit == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("seeds.", field, ": ", bytes, " bytes, must be a multiple of ", unit));
}

absl::Status NoSuchNode(const SubGraphSource& source, size_t set, absl::string_view id) {
  return absl::NotFoundError(absl::StrCat(
      "seeds: node set '", source.graph().schema().node_sets()[set].name, "' has no node ", id));
}

// The node set of the seed at a position.
size_t SetOfSeed(const SubGraphSource& source, size_t position) {
  return source.seed_node_set(position % source.sampler().plan().seeds_per_row());
}

absl::StatusOr<std::vector<uint32_t>> NodesOfIds(const v1::NodeIds& wire,
                                                 const SubGraphSource& source) {
  const SourceGraph& graph = source.graph();
  std::vector<uint32_t> nodes;
  for (const size_t end : {size_t{0}, size_t{1}}) {
    PH_RETURN_IF_ERROR(graph.NodeIds(source.seed_node_set(end)).CheckAll());
  }
  const bool all_integers = graph.integer_ids(source.seed_node_set(0));
  if (all_integers != graph.integer_ids(source.seed_node_set(1))) {
    return absl::InvalidArgumentError(
        "seeds.ids: the ids of one end of links are integers, those of the other are text: give "
        "rows or numbers");
  }
  if (wire.ids_case() == v1::NodeIds::kIntegers) {
    if (!all_integers) {
      return absl::InvalidArgumentError("seeds.ids: integers, the node set's ids are text");
    }
    PH_RETURN_IF_ERROR(CheckMultiple("ids.integers", wire.integers().size(), sizeof(int64_t)));
    nodes.reserve(wire.integers().size() / sizeof(int64_t));
    for (const uint64_t bits : Uint64sFromWire(wire.integers())) {
      const auto id = static_cast<int64_t>(bits);
      const size_t set = SetOfSeed(source, nodes.size());
      const std::optional<uint32_t> node = FindNode(graph, set, id);
      if (!node) return NoSuchNode(source, set, absl::StrCat(id));
      nodes.push_back(*node);
    }
    return nodes;
  }
  if (wire.ids_case() != v1::NodeIds::kText) {
    return absl::InvalidArgumentError("seeds.ids: has neither integers nor text");
  }
  if (all_integers) {
    return absl::InvalidArgumentError("seeds.ids: text, the node set's ids are integers");
  }
  PH_RETURN_IF_ERROR(CheckMultiple("ids.text.lengths", wire.text().lengths().size(), 4));
  absl::string_view data = wire.text().data();
  for (const uint32_t length : Uint32sFromWire(wire.text().lengths())) {
    if (length > data.size()) {
      return absl::InvalidArgumentError(absl::StrCat("seeds.ids.text: ", wire.text().data().size(),
                                                     " bytes of ids, the lengths say more"));
    }
    const absl::string_view id = data.substr(0, length);
    data.remove_prefix(length);
    const size_t set = SetOfSeed(source, nodes.size());
    const std::optional<uint32_t> node = FindNode(graph, set, id);
    if (!node) return NoSuchNode(source, set, absl::StrCat("'", absl::CHexEscape(id), "'"));
    nodes.push_back(*node);
  }
  if (data.empty()) return nodes;
  return absl::InvalidArgumentError(
      absl::StrCat("seeds.ids.text: ", data.size(), " bytes of ids more than the lengths say"));
}

absl::StatusOr<std::vector<uint32_t>> NodesOfRowsAt(const std::string& wire,
                                                    const SubGraphSource& source) {
  PH_RETURN_IF_ERROR(CheckMultiple("rows", wire.size(), sizeof(uint64_t)));
  const std::vector<uint64_t> rows = Uint64sFromWire(wire);
  const size_t per_row = source.sampler().plan().seeds_per_row();
  std::vector<uint32_t> nodes(rows.size());
  for (size_t end = 0; end < per_row; ++end) {
    std::vector<uint64_t> of_end;
    for (size_t i = end; i < rows.size(); i += per_row) of_end.push_back(rows[i]);
    PH_ASSIGN_OR_RETURN(
        const std::vector<uint32_t> found,
        FindNodesOfRows(source.graph(), source.seed_node_set(end), of_end, "seeds.rows"));
    for (size_t i = 0; i < found.size(); ++i) nodes[i * per_row + end] = found[i];
  }
  return nodes;
}

absl::StatusOr<ExcludeLinks> ExcludeFromWire(v1::ExcludeLinks wire) {
  switch (wire) {
    case v1::EXCLUDE_LINKS_UNSPECIFIED:
    case v1::EXCLUDE_LINKS_NONE:
      return ExcludeLinks::kNone;
    case v1::EXCLUDE_LINKS_SELF:
      return ExcludeLinks::kSelf;
    case v1::EXCLUDE_LINKS_REVERSE_TYPES:
      return ExcludeLinks::kReverseTypes;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("exclude: ", static_cast<int>(wire), " is not one of ExcludeLinks"));
  }
}

absl::StatusOr<std::vector<SourceColumnSpec>> ReadoutColumnsFromWire(const v1::SubGraphs& wire) {
  // They are checked as columns of a source graph are.
  v1::CreateSourceGraphRequest message;
  message.set_name("readout");
  v1::SourceNodeSet& set = *message.mutable_schema()->add_node_sets();
  set.set_name("_readout");
  *set.mutable_columns() = wire.readout_columns();
  PH_ASSIGN_OR_RETURN(const NewSourceGraph checked, NewSourceGraphFromWire(message));
  return checked.schema.node_sets()[0].columns;
}

// In the order of the plan's columns.
absl::StatusOr<std::shared_ptr<const std::vector<std::string>>> ReadoutFromWire(
    const v1::Seeds& wire, const SubGraphSource& source) {
  const absl::Span<const SourceColumnSpec> columns = source.sampler().plan().readout_columns();
  std::vector<std::string> readout(columns.size());
  std::vector<bool> is_there(columns.size());
  for (const v1::SourceColumnRows& rows : wire.readout()) {
    const auto column =
        std::find_if(columns.begin(), columns.end(),
                     [&](const SourceColumnSpec& spec) { return spec.name == rows.name(); });
    const std::string name = absl::StrCat("'", absl::CHexEscape(rows.name()), "'");
    if (column == columns.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("seeds.readout: `_readout` has no column ", name));
    }
    const size_t c = column - columns.begin();
    if (is_there[c]) {
      return absl::InvalidArgumentError(
          absl::StrCat("seeds.readout: column ", name, " is there twice"));
    }
    is_there[c] = true;
    readout[c] = rows.data();
  }
  for (size_t c = 0; c < columns.size(); ++c) {
    if (is_there[c]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("seeds.readout: column '", columns[c].name, "' is missing"));
  }
  return std::make_shared<const std::vector<std::string>>(std::move(readout));
}

}  // namespace

absl::StatusOr<SubGraphsRequest> SubGraphsFromWire(const v1::SubGraphs& wire) {
  SubGraphsRequest request;
  request.graph = wire.graph();
  switch (wire.spec_case()) {
    case v1::SubGraphs::kText: {
      PH_ASSIGN_OR_RETURN(request.spec, tfgnn::ParseSamplingSpec(wire.text()));
      break;
    }
    case v1::SubGraphs::kBinary: {
      PH_ASSIGN_OR_RETURN(request.spec, tfgnn::ParseSamplingSpec(wire.binary()));
      break;
    }
    case v1::SubGraphs::SPEC_NOT_SET:
      return absl::InvalidArgumentError(
          "sub_graphs: has no sampling spec: neither text nor binary");
  }
  request.seeds_per_graph = wire.seeds_per_graph() == 0 ? 1 : wire.seeds_per_graph();
  SamplingOptions& options = request.options;
  options.weight_column = wire.weight_column();
  options.induced = wire.induced();
  options.induced_edge_sets.assign(wire.induced_edge_sets().begin(),
                                   wire.induced_edge_sets().end());
  options.merge_parallel = wire.merge_parallel();
  options.node_time_column = wire.node_time_column();
  options.edge_time_column = wire.edge_time_column();
  options.untimed_sets.assign(wire.untimed_sets().begin(), wire.untimed_sets().end());
  options.latest = wire.latest();
  options.time_window = wire.time_window();
  options.link_node_set = wire.link_node_set();
  options.link_edge_set = wire.link_edge_set();
  PH_ASSIGN_OR_RETURN(options.exclude, ExcludeFromWire(wire.exclude()));
  options.reverse_edge_sets.assign(wire.reverse_edge_sets().begin(),
                                   wire.reverse_edge_sets().end());
  options.readout = wire.readout();
  if (!wire.readout_columns().empty()) {
    PH_ASSIGN_OR_RETURN(options.readout_columns, ReadoutColumnsFromWire(wire));
  }
  request.payload.features = !wire.without_features();
  request.payload.numbers = wire.numbers();
  request.payload.rows = wire.rows();
  request.payload.ids = wire.ids();
  return request;
}

absl::StatusOr<std::shared_ptr<const SubGraphSource>> OpenSubGraphs(const v1::SubGraphs& wire,
                                                                    const SourceGraphStore* graphs,
                                                                    bool at_once) {
  if (graphs == nullptr) {
    return absl::FailedPreconditionError(
        "source graphs need a folder for data: the server was started without --data-dir");
  }
  PH_ASSIGN_OR_RETURN(SubGraphsRequest request, SubGraphsFromWire(wire));
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const SourceGraph> graph,
                      at_once ? graphs->OpenIfHere(request.graph) : graphs->Open(request.graph));
  return SubGraphSource::Create(std::move(graph), std::move(request));
}

absl::StatusOr<SeedList> SeedsFromWire(bool is_set, const v1::Seeds& wire,
                                       const SubGraphSource& source, SeedCounter* counter) {
  SeedList seeds;
  if (is_set) {
    std::vector<uint32_t> nodes;
    switch (wire.nodes_case()) {
      case v1::Seeds::kNumbers:
        PH_RETURN_IF_ERROR(CheckMultiple("numbers", wire.numbers().size(), sizeof(uint32_t)));
        nodes = Uint32sFromWire(wire.numbers());
        break;
      case v1::Seeds::kIds: {
        PH_ASSIGN_OR_RETURN(nodes, NodesOfIds(wire.ids(), source));
        break;
      }
      case v1::Seeds::kRows: {
        PH_ASSIGN_OR_RETURN(nodes, NodesOfRowsAt(wire.rows(), source));
        break;
      }
      case v1::Seeds::NODES_NOT_SET:
        return absl::InvalidArgumentError("seeds: has neither numbers nor ids nor rows");
    }
    seeds.nodes = std::make_shared<const std::vector<uint32_t>>(std::move(nodes));
    PH_RETURN_IF_ERROR(CheckMultiple("occurrences", wire.occurrences().size(), sizeof(uint32_t)));
    seeds.occurrences = Uint32sFromWire(wire.occurrences());
    PH_RETURN_IF_ERROR(CheckMultiple("times", wire.times().size(), sizeof(int64_t)));
    for (const uint64_t time : Uint64sFromWire(wire.times())) {
      seeds.times.push_back(static_cast<int64_t>(time));
    }
    if (!wire.readout().empty()) {
      PH_ASSIGN_OR_RETURN(seeds.readout, ReadoutFromWire(wire, source));
    }
  }
  PH_RETURN_IF_ERROR(source.CheckSeeds(seeds));
  if (seeds.nodes == nullptr || !seeds.occurrences.empty()) return seeds;
  seeds.occurrences =
      counter != nullptr
          ? counter->Count(*seeds.nodes)
          : SeedOccurrences(*seeds.nodes, source.graph().num_nodes(source.seed_node_set()),
                            source.sampler().plan().seeds_per_row());
  return seeds;
}

uint64_t BytesOfSeeds(const v1::Seeds& wire) {
  uint64_t readout = 0;
  for (const v1::SourceColumnRows& rows : wire.readout()) readout += rows.data().size();
  // Text ids have 4 bytes of length each, and as many give a number; as many again say which time a
  // seed comes.
  return readout + 3 * wire.numbers().size() + 2 * wire.ids().integers().size() +
         3 * wire.ids().text().lengths().size() + wire.rows().size() + 2 * wire.times().size() +
         2 * wire.occurrences().size();
}

absl::StatusOr<bool> DrawsSmaller(v1::BeyondLimits wire) {
  switch (wire) {
    case v1::BEYOND_LIMITS_UNSPECIFIED:
    case v1::BEYOND_LIMITS_DRAW_SMALLER:
      return true;
    case v1::BEYOND_LIMITS_REFUSE:
      return false;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("beyond_limits: ", static_cast<int>(wire), " is not one of BeyondLimits"));
  }
}

void GraphChunkToWire(const GraphChunk& chunk, v1::GraphChunk& wire) {
  const SizeTable& sizes = chunk.sizes();
  std::vector<uint32_t> counts;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < chunk.num_graphs(); ++i) {
    const auto tuple = sizes.tuple(i);
    counts.insert(counts.end(), tuple.begin(), tuple.end());
    ids.push_back(sizes.graph_id(i));
  }
  v1::SizeTable& table = *wire.mutable_sizes();
  table.set_num_graphs(chunk.num_graphs());
  table.set_counts(Uint32sToWire(counts));
  table.set_graph_ids(Uint64sToWire(ids));
  for (size_t t = 0; t < chunk.num_columns(); ++t) {
    v1::TensorData& tensor = *wire.add_tensors();
    tensor.set_name(chunk.schema().tensors()[t].name);
    const absl::string_view column = chunk.column(t);
    tensor.set_data(column.data(), column.size());
  }
}

}  // namespace packhouse
