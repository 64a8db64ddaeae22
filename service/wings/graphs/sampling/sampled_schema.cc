#include "service/wings/graphs/sampling/sampled_schema.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/sampling/tensor_source.h"
#include "service/wings/tfgnn/tensor_names.h"

namespace packhouse {

// What a schema is made of.
struct SchemaSets {
  std::vector<size_t> node_sets;
  std::vector<PartSets::EdgeSet> edge_sets;
  bool inner_marks = false;
  bool has_readout = false;
  bool link_seeds = false;
  std::array<size_t, 2> seed_sets = {};
  size_t seeds_per_row = 1;
  absl::Span<const SourceColumnSpec> readout_columns;
};

namespace {

constexpr absl::string_view kReadout = "_readout";
constexpr absl::string_view kCut = "/cut";

// Puts components, tensors and where their rows come from together.
class SchemaWriting {
 public:
  SchemaWriting(const SchemaSets& sets, const SourceGraph& graph, const SampledPayload& payload)
      : sets_(sets), graph_(graph), payload_(payload) {}

  absl::StatusOr<GraphSchema> Write();

  std::vector<TensorSource> sources;
  std::vector<RowsOf> components;
  std::vector<RaggedSource> ragged;

 private:
  struct Set {
    std::string name;
    RowsOf rows;
  };

  void WriteNodes(size_t component, const Set& set);
  void WriteEdges(size_t component, const Set& set);
  void WriteColumn(size_t component, const Set& set, const SourceColumnSpec& spec,
                   const SourceColumn& column);
  void WriteTensor(TensorSpec spec, TensorSource source);
  void WriteNumbers(size_t component, const Set& set, absl::string_view ending,
                    const ImportedRows& rows);
  static TensorSpec Spec(std::string name, DType dtype, size_t component) {
    TensorSpec spec;
    spec.name = std::move(name);
    spec.dtype = dtype;
    spec.component = component;
    return spec;
  }
  size_t NodeComponent(const RowsOf& rows) const;
  static bool HasColumn(const std::vector<SourceColumnSpec>& columns, absl::string_view name) {
    return std::any_of(columns.begin(), columns.end(),
                       [&](const SourceColumnSpec& column) { return column.name == name; });
  }

  const SchemaSets& sets_;
  const SourceGraph& graph_;
  const SampledPayload& payload_;
  std::vector<Set> node_sets_;
  std::vector<Set> edge_sets_;
  std::vector<std::string> names_;
  std::vector<std::string> ragged_names_;
  // Tensors along components of ragged features: these come after all others, and so do their
  // numbers.
  std::vector<TensorSpec> tensors_;
};

size_t SchemaWriting::NodeComponent(const RowsOf& rows) const {
  for (size_t n = 0; n < node_sets_.size(); ++n) {
    if (node_sets_[n].rows == rows) return n;
  }
  return node_sets_.size();
}

void SchemaWriting::WriteTensor(TensorSpec spec, TensorSource source) {
  tensors_.push_back(std::move(spec));
  sources.push_back(source);
}

void SchemaWriting::WriteNumbers(size_t component, const Set& set, absl::string_view ending,
                                 const ImportedRows& rows) {
  TensorSource source;
  source.kind =
      rows.is_identity() ? TensorSource::Kind::kNumbers : TensorSource::Kind::kImportedRows;
  source.rows = set.rows;
  source.column = rows.numbers();
  source.row_bytes = sizeof(int64_t);
  WriteTensor(Spec(absl::StrCat(set.name, ending), DType::kInt64, component), source);
}

void SchemaWriting::WriteColumn(size_t component, const Set& set, const SourceColumnSpec& spec,
                                const SourceColumn& column) {
  std::string name = absl::StrCat(set.name, ".", spec.name);
  if (spec.text) absl::StrAppend(&name, tfgnn::kBytesEnding);
  TensorSource source;
  source.rows = set.rows;
  source.column = column;
  if (!spec.ragged) {
    TensorSpec tensor = Spec(std::move(name), spec.dtype, component);
    tensor.row_shape = spec.row_shape;
    source.kind = TensorSource::Kind::kRows;
    source.row_bytes = column.row_bytes;
    WriteTensor(std::move(tensor), source);
    return;
  }
  source.kind = TensorSource::Kind::kLengths;
  source.row_bytes = sizeof(int32_t);
  WriteTensor(Spec(tfgnn::LengthsName(name, 1), DType::kInt32, component), source);
  const size_t own = names_.size() + ragged_names_.size();
  ragged_names_.push_back(name);
  ragged.push_back({set.rows, column});
  TensorSpec values = Spec(std::move(name), spec.dtype, own);
  values.row_shape = spec.row_shape;
  source.kind = TensorSource::Kind::kSteps;
  source.row_bytes = column.row_bytes;
  WriteTensor(std::move(values), source);
}

void SchemaWriting::WriteNodes(size_t component, const Set& set) {
  if (set.rows.kind == RowsOf::Kind::kReadout) {
    for (size_t c = 0; c < sets_.readout_columns.size(); ++c) {
      const SourceColumnSpec& column = sets_.readout_columns[c];
      TensorSpec tensor = Spec(absl::StrCat(set.name, ".", column.name), column.dtype, component);
      tensor.row_shape = column.row_shape;
      TensorSource source;
      source.kind = TensorSource::Kind::kReadout;
      source.rows = set.rows;
      source.readout_column = c;
      source.row_bytes = ElementBytes(column.dtype);
      for (const uint32_t extent : column.row_shape) source.row_bytes *= extent;
      WriteTensor(std::move(tensor), source);
    }
    return;
  }
  const size_t node_set = sets_.node_sets[set.rows.position];
  const std::vector<SourceColumnSpec>& columns = graph_.schema().node_sets()[node_set].columns;
  if (payload_.ids && !(payload_.features && HasColumn(columns, "#id"))) {
    SourceColumnSpec ids;
    ids.name = "#id";
    ids.text = ids.ragged = !graph_.integer_ids(node_set);
    ids.dtype = ids.text ? DType::kUint8 : DType::kInt64;
    WriteColumn(component, set, ids, graph_.NodeIds(node_set));
  }
  if (payload_.numbers) WriteNumbers(component, set, ".#number", ImportedRows());
  if (payload_.rows) WriteNumbers(component, set, ".#row", graph_.NodeRows(node_set));
  if (sets_.inner_marks) {
    TensorSource source;
    source.kind = TensorSource::Kind::kInner;
    source.rows = set.rows;
    source.row_bytes = 1;
    WriteTensor(Spec(absl::StrCat(set.name, ".#inner"), DType::kBool, component), source);
  }
  if (!payload_.features) return;
  for (size_t c = 0; c < columns.size(); ++c) {
    WriteColumn(component, set, columns[c], graph_.NodeColumn(node_set, c));
  }
}

void SchemaWriting::WriteEdges(size_t component, const Set& set) {
  std::vector<SourceColumnSpec> columns;
  size_t ends[2] = {};
  size_t edge_set = 0;
  bool cut = false;
  if (set.rows.kind == RowsOf::Kind::kEdges) {
    const PartSets::EdgeSet& planned = sets_.edge_sets[set.rows.position];
    cut = planned.cut;
    edge_set = planned.edge_set;
    const SourceEdgeSetSpec& spec = graph_.schema().edge_sets()[edge_set];
    if (payload_.features) {
      columns = graph_.schema().edge_sets()[spec.reverse_of.value_or(edge_set)].columns;
    }
    ends[0] = NodeComponent({RowsOf::Kind::kNodes, planned.source});
    ends[1] = NodeComponent({RowsOf::Kind::kNodes, planned.target});
  } else {
    ends[0] = NodeComponent({RowsOf::Kind::kNodes, sets_.seed_sets[set.rows.position]});
    ends[1] = NodeComponent({RowsOf::Kind::kReadout, 0});
  }
  const bool clash = HasColumn(columns, "source") || HasColumn(columns, "target");
  for (const size_t end : {size_t{0}, size_t{1}}) {
    // The source of a cut edge is no node of the graph.
    const bool number = cut && end == 0;
    TensorSpec tensor =
        Spec(absl::StrCat(set.name, clash || number ? ".#" : ".", end == 0 ? "source" : "target"),
             number ? DType::kUint32 : DType::kInt32, component);
    if (!number) tensor.index_into = ends[end];
    TensorSource source;
    source.kind = end == 0 ? TensorSource::Kind::kSources : TensorSource::Kind::kTargets;
    source.rows = set.rows;
    source.row_bytes = sizeof(int32_t);
    WriteTensor(std::move(tensor), source);
  }
  if (set.rows.kind != RowsOf::Kind::kEdges) return;
  if (payload_.numbers) WriteNumbers(component, set, ".#number", ImportedRows());
  if (payload_.rows) WriteNumbers(component, set, ".#row", graph_.EdgeRows(edge_set));
  for (size_t c = 0; c < columns.size(); ++c) {
    WriteColumn(component, set, columns[c], graph_.EdgeColumn(edge_set, c));
  }
}

absl::StatusOr<GraphSchema> SchemaWriting::Write() {
  const SourceGraphSchema& schema = graph_.schema();
  for (size_t n = 0; n < sets_.node_sets.size(); ++n) {
    node_sets_.push_back({schema.node_sets()[sets_.node_sets[n]].name, {RowsOf::Kind::kNodes, n}});
  }
  for (size_t e = 0; e < sets_.edge_sets.size(); ++e) {
    const PartSets::EdgeSet& set = sets_.edge_sets[e];
    edge_sets_.push_back({absl::StrCat(schema.edge_sets()[set.edge_set].name, set.cut ? kCut : ""),
                          {RowsOf::Kind::kEdges, e}});
  }
  if (sets_.has_readout) {
    node_sets_.push_back({std::string(kReadout), {RowsOf::Kind::kReadout, 0}});
    if (sets_.link_seeds) {
      edge_sets_.push_back({"_readout/source", {RowsOf::Kind::kReadoutEdges, 0}});
      edge_sets_.push_back({"_readout/target", {RowsOf::Kind::kReadoutEdges, 1}});
    } else {
      edge_sets_.push_back({"_readout/seed", {RowsOf::Kind::kReadoutEdges, 0}});
    }
  }
  for (std::vector<Set>* sets : {&node_sets_, &edge_sets_}) {
    std::sort(sets->begin(), sets->end(),
              [](const Set& a, const Set& b) { return a.name < b.name; });
    for (const Set& set : *sets) names_.push_back(set.name);
  }
  for (const Set& set : node_sets_) components.push_back(set.rows);
  for (const Set& set : edge_sets_) components.push_back(set.rows);
  for (size_t n = 0; n < node_sets_.size(); ++n) WriteNodes(n, node_sets_[n]);
  for (size_t e = 0; e < edge_sets_.size(); ++e) WriteEdges(node_sets_.size() + e, edge_sets_[e]);
  names_.insert(names_.end(), ragged_names_.begin(), ragged_names_.end());
  PH_ASSIGN_OR_RETURN(SizeSchema sizes, SizeSchema::Create(std::move(names_)));
  return GraphSchema::Create(std::move(sizes), std::move(tensors_));
}

}  // namespace

absl::StatusOr<SampledSchema> SampledSchema::Create(const SamplingPlan& plan,
                                                    const SourceGraph& graph,
                                                    SampledPayload payload) {
  SchemaSets sets;
  sets.node_sets.assign(plan.node_sets().begin(), plan.node_sets().end());
  for (const PlannedEdgeSet& set : plan.edge_sets()) {
    sets.edge_sets.push_back({set.edge_set, set.source, set.target, false});
  }
  sets.has_readout = plan.has_readout();
  sets.link_seeds = plan.spec().link_seeds;
  sets.seed_sets = {plan.seed_set(0), plan.seed_set(1)};
  sets.seeds_per_row = plan.seeds_per_row();
  sets.readout_columns = plan.readout_columns();
  return CreateOf(sets, graph, payload);
}

absl::StatusOr<SampledSchema> SampledSchema::CreateForParts(const PartSets& sets,
                                                            const SourceGraph& graph,
                                                            SampledPayload payload) {
  SchemaSets all;
  all.node_sets = sets.node_sets;
  all.edge_sets = sets.edge_sets;
  all.inner_marks = sets.inner_marks;
  return CreateOf(all, graph, payload);
}

absl::StatusOr<SampledSchema> SampledSchema::CreateOf(const SchemaSets& sets,
                                                      const SourceGraph& graph,
                                                      SampledPayload payload) {
  SchemaWriting writing(sets, graph, payload);
  PH_ASSIGN_OR_RETURN(GraphSchema schema, writing.Write());
  auto tensors = std::make_shared<SampledTensors>();
  tensors->needs_edge_numbers.resize(sets.edge_sets.size());
  for (const TensorSource& source : writing.sources) {
    const bool is_end =
        source.kind == TensorSource::Kind::kSources || source.kind == TensorSource::Kind::kTargets;
    if (source.rows.kind != RowsOf::Kind::kEdges || is_end) continue;
    tensors->needs_edge_numbers[source.rows.position] = true;
  }
  tensors->sources = std::move(writing.sources);
  tensors->components = std::move(writing.components);
  tensors->ragged = std::move(writing.ragged);
  tensors->seeds_per_row = sets.seeds_per_row;
  tensors->num_readout_columns = sets.readout_columns.size();
  SampledSchema sampled;
  sampled.schema_ = std::make_shared<const GraphSchema>(std::move(schema));
  sampled.payload_ = payload;
  sampled.tensors_ = std::move(tensors);
  return sampled;
}

bool SampledSchema::needs_edge_numbers() const {
  return absl::c_linear_search(tensors_->needs_edge_numbers, true);
}

absl::Status SampledSchema::CheckEdgeNumbers(const SampledGraph& sampled) const {
  for (size_t e = 0; e < tensors_->needs_edge_numbers.size(); ++e) {
    const SampledEdges& edges = sampled.edge_sets[e];
    if (!tensors_->needs_edge_numbers[e] || edges.numbers.size() == edges.sources.size()) continue;
    return absl::InvalidArgumentError(
        "the sub-graph was drawn without edge numbers, and edges have features or numbers");
  }
  return absl::OkStatus();
}

absl::Status SampledSchema::Sizes(const SampledGraph& sampled, std::vector<uint32_t>& tuple) const {
  tuple.clear();
  const auto add = [&](uint64_t count) {
    if (count > std::numeric_limits<int32_t>::max()) {
      return absl::OutOfRangeError(absl::StrCat("a sub-graph has ", count, " rows of ",
                                                Quoted(schema_->sizes().name(tuple.size())),
                                                ", at most ", std::numeric_limits<int32_t>::max()));
    }
    tuple.push_back(static_cast<uint32_t>(count));
    return absl::OkStatus();
  };
  for (const RowsOf& rows : tensors_->components) {
    PH_RETURN_IF_ERROR(add(tensors_->Count(sampled, rows)));
  }
  if (!tensors_->ragged.empty()) PH_RETURN_IF_ERROR(CheckEdgeNumbers(sampled));
  for (const RaggedSource& ragged : tensors_->ragged) {
    uint64_t steps = 0;
    absl::Status sound;
    VisitNumbers(sampled, ragged.rows, [&](const auto& numbers) {
      sound = ragged.column.CheckLengths(numbers);
      if (!sound.ok()) return;
      for (const uint64_t row : numbers) {
        steps += ragged.column.offsets[row + 1] - ragged.column.offsets[row];
      }
    });
    PH_RETURN_IF_ERROR(sound);
    PH_RETURN_IF_ERROR(add(steps));
  }
  return absl::OkStatus();
}

absl::Status SampledSchema::DrawWithin(const Sampler& sampler, const DrawRequest& request,
                                       absl::Span<const uint32_t> limits, SamplerScratch& scratch,
                                       SampledGraph& result, std::vector<uint32_t>& tuple) const {
  DrawRequest within = request;
  within.limits = {};
  if (!tensors_->ragged.empty()) within.edge_numbers |= needs_edge_numbers();
  if (!limits.empty()) {
    if (limits.size() != schema_->num_components()) {
      return absl::InvalidArgumentError(absl::StrCat("limits of ", limits.size(),
                                                     " components, but sub-graphs have ",
                                                     schema_->num_components()));
    }
    within.limits.nodes.resize(sampler.plan().node_sets().size());
    within.limits.edges.resize(sampler.plan().edge_sets().size());
    for (size_t k = 0; k < tensors_->components.size(); ++k) {
      const RowsOf& rows = tensors_->components[k];
      if (rows.kind == RowsOf::Kind::kNodes) within.limits.nodes[rows.position] = limits[k];
      if (rows.kind == RowsOf::Kind::kEdges) within.limits.edges[rows.position] = limits[k];
    }
  }
  for (;; ++within.level) {
    PH_RETURN_IF_ERROR(sampler.Draw(within, scratch, result));
    within.level = result.level;
    PH_RETURN_IF_ERROR(Sizes(result, tuple));
    if (limits.empty()) return absl::OkStatus();
    size_t beyond = 0;
    while (beyond < limits.size() && tuple[beyond] <= limits[beyond]) ++beyond;
    if (beyond == limits.size()) return absl::OkStatus();
    if (within.level + 1 < sampler.plan().num_levels()) continue;
    return absl::OutOfRangeError(
        absl::StrCat("the seeds alone do not fit: they have ", tuple[beyond], " of ",
                     Quoted(schema_->sizes().name(beyond)), ", the limit is ", limits[beyond]));
  }
}

uint64_t SampledSchema::Bytes(absl::Span<const uint32_t> tuple) const {
  uint64_t bytes = 0;
  for (size_t t = 0; t < schema_->tensors().size(); ++t) {
    bytes += uint64_t{tuple[schema_->tensors()[t].component]} * schema_->row_bytes(t);
  }
  return bytes;
}

}  // namespace packhouse
