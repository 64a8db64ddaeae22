#include "service/wings/partition/epochs/parts_schema.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kCutEnding = "/cut";

absl::Status IsNoPart(absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("join_parts: not a data set of parts without a halo: ", what));
}

}  // namespace

// Works one step after the other, in this order.
class PartsSchema::Builder {
 public:
  explicit Builder(const GraphSchema& stored)
      : stored_(stored),
        sizes_(stored.sizes()),
        cut_of_(stored.num_components()),
        is_cut_(stored.num_components()),
        node_set_of_(stored.num_components(), JoinedTensor::kNone),
        joined_of_(stored.num_components() + 1) {}

  // Which components have the cut edges of which.
  absl::Status FindCuts() {
    for (size_t k = 0; k < stored_.num_components(); ++k) {
      absl::string_view name = sizes_.name(k);
      if (!absl::ConsumeSuffix(&name, kCutEnding)) continue;
      const auto whole = ComponentOf(name);
      if (!whole) return IsNoPart(absl::StrCat("it has no component ", Quoted(name)));
      cut_of_[*whole] = k;
      is_cut_[k] = true;
    }
    return absl::OkStatus();
  }

  absl::Status AddComponents() {
    for (size_t k = 0; k < stored_.num_components(); ++k) {
      if (is_cut_[k]) continue;
      joined_of_[k] = names_.size();
      names_.emplace_back(sizes_.name(k));
      parts_.stored_components_.push_back(k);
      parts_.edge_set_of_.push_back(cut_of_[k] ? parts_.edge_sets_.size() : JoinedTensor::kNone);
      if (cut_of_[k]) PH_RETURN_IF_ERROR(AddEdgeSet(k, *cut_of_[k]));
    }
    joined_of_[stored_.num_components()] = names_.size();
    return parts_.edge_sets_.empty() ? IsNoPart("no component has cut edges") : absl::OkStatus();
  }

  absl::Status AddTensors() {
    for (size_t t = 0; t < stored_.tensors().size(); ++t) {
      const TensorSpec& spec = stored_.tensors()[t];
      const bool is_of_graphs = spec.component == stored_.num_components();
      if (!is_of_graphs && is_cut_[spec.component]) continue;
      if (spec.layout != Layout::kRowsFirst) return IsNoPart("it has rows last");
      JoinedTensor tensor;
      tensor.stored = t;
      tensor.edge_set =
          is_of_graphs ? JoinedTensor::kNone : parts_.edge_set_of_[joined_of_[spec.component]];
      if (tensor.edge_set != JoinedTensor::kNone) PH_RETURN_IF_ERROR(FindCutRows(spec, tensor));
      parts_.tensors_.push_back(tensor);
      tensors_.push_back(spec);
      tensors_.back().component = joined_of_[spec.component];
      if (spec.index_into) tensors_.back().index_into = joined_of_[*spec.index_into];
    }
    for (const EdgeSet& edges : parts_.edge_sets_) {
      if (edges.source_set == JoinedTensor::kNone || edges.target_set == JoinedTensor::kNone) {
        return IsNoPart(absl::StrCat(Quoted(sizes_.name(edges.component)), " has no ends"));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PartsSchema> Build() && {
    PH_ASSIGN_OR_RETURN(SizeSchema joined_sizes, SizeSchema::Create(std::move(names_)));
    PH_ASSIGN_OR_RETURN(GraphSchema joined,
                        GraphSchema::Create(std::move(joined_sizes), std::move(tensors_)));
    parts_.joined_ = std::make_shared<const GraphSchema>(std::move(joined));
    return std::move(parts_);
  }

 private:
  std::optional<size_t> ComponentOf(absl::string_view name) const {
    for (size_t k = 0; k < stored_.num_components(); ++k) {
      if (sizes_.name(k) == name) return k;
    }
    return std::nullopt;
  }

  absl::Status AddEdgeSet(size_t component, size_t cut) {
    EdgeSet edges;
    edges.source_set = edges.target_set = JoinedTensor::kNone;
    edges.component = component;
    edges.cut = cut;
    const auto source = stored_.TensorIndex(absl::StrCat(sizes_.name(cut), ".#source"));
    if (!source || stored_.tensors()[*source].dtype != DType::kUint32 ||
        !stored_.tensors()[*source].row_shape.empty() ||
        stored_.tensors()[*source].component != cut) {
      return IsNoPart(absl::StrCat("it has no sources of ", Quoted(sizes_.name(cut))));
    }
    edges.cut_source = *source;
    parts_.edge_sets_.push_back(edges);
    return absl::OkStatus();
  }

  // Adds it, if it is not there.
  absl::StatusOr<size_t> NodeSetOf(size_t component) {
    if (node_set_of_[component] != JoinedTensor::kNone) return node_set_of_[component];
    const std::string name = absl::StrCat(sizes_.name(component), ".#number");
    const auto number = stored_.TensorIndex(name);
    if (!number || stored_.tensors()[*number].component != component ||
        stored_.row_bytes(*number) != sizeof(int64_t)) {
      return IsNoPart(absl::StrCat("it has no numbers ", Quoted(name)));
    }
    node_set_of_[component] = parts_.node_sets_.size();
    parts_.node_sets_.push_back({component, *number});
    return node_set_of_[component];
  }

  // Of a tensor of edges: the one that has the same of cut edges, and the ends' node sets.
  absl::Status FindCutRows(const TensorSpec& spec, JoinedTensor& tensor) {
    EdgeSet& edges = parts_.edge_sets_[tensor.edge_set];
    absl::string_view feature = spec.name;
    if (!absl::ConsumePrefix(&feature, absl::StrCat(sizes_.name(edges.component), "."))) {
      return IsNoPart(absl::StrCat("tensor ", Quoted(spec.name), " is of no set"));
    }
    tensor.is_source = spec.index_into && (feature == "source" || feature == "#source");
    const bool is_target = spec.index_into && (feature == "target" || feature == "#target");
    if (spec.index_into && !tensor.is_source && !is_target) {
      return IsNoPart(absl::StrCat("tensor ", Quoted(spec.name), " is no end of edges"));
    }
    if (spec.index_into && (spec.dtype != DType::kInt32 || !spec.row_shape.empty())) {
      return IsNoPart(absl::StrCat("tensor ", Quoted(spec.name), " is not one int32 a row"));
    }
    if (tensor.is_source) {
      PH_ASSIGN_OR_RETURN(edges.source_set, NodeSetOf(*spec.index_into));
      tensor.stored_cut = edges.cut_source;
      return absl::OkStatus();
    }
    if (is_target) {
      PH_ASSIGN_OR_RETURN(edges.target_set, NodeSetOf(*spec.index_into));
    }
    const auto cut = stored_.TensorIndex(absl::StrCat(sizes_.name(edges.cut), ".", feature));
    if (!cut || stored_.tensors()[*cut].component != edges.cut ||
        stored_.row_bytes(*cut) != stored_.row_bytes(tensor.stored) ||
        stored_.tensors()[*cut].index_into != spec.index_into) {
      return IsNoPart(absl::StrCat("cut edges have no ", Quoted(spec.name)));
    }
    tensor.stored_cut = *cut;
    return absl::OkStatus();
  }

  const GraphSchema& stored_;
  const SizeSchema& sizes_;
  PartsSchema parts_;
  // By stored components: that of its cut edges; whether it is one of those; its node set; its
  // number among the joined ones, and behind all of them that of graphs.
  std::vector<std::optional<size_t>> cut_of_;
  std::vector<bool> is_cut_;
  std::vector<size_t> node_set_of_;
  std::vector<size_t> joined_of_;
  // Of the joined schema.
  std::vector<std::string> names_;
  std::vector<TensorSpec> tensors_;
};

absl::StatusOr<PartsSchema> PartsSchema::Of(const GraphSchema& stored) {
  Builder builder(stored);
  PH_RETURN_IF_ERROR(builder.FindCuts());
  PH_RETURN_IF_ERROR(builder.AddComponents());
  PH_RETURN_IF_ERROR(builder.AddTensors());
  return std::move(builder).Build();
}

}  // namespace packhouse
