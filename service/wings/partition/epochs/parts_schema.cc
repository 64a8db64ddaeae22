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

absl::StatusOr<PartsSchema> PartsSchema::Of(const GraphSchema& stored) {
  const SizeSchema& sizes = stored.sizes();
  const size_t l = stored.num_components();
  PartsSchema parts;
  const auto component_of = [&](absl::string_view name) -> std::optional<size_t> {
    for (size_t k = 0; k < l; ++k) {
      if (sizes.name(k) == name) return k;
    }
    return std::nullopt;
  };
  // Tensors by the components of their edges.
  std::vector<std::optional<size_t>> cut_of(l);
  std::vector<bool> is_cut(l);
  for (size_t k = 0; k < l; ++k) {
    absl::string_view name = sizes.name(k);
    if (!absl::ConsumeSuffix(&name, kCutEnding)) continue;
    const auto whole = component_of(name);
    if (!whole) return IsNoPart(absl::StrCat("it has no component ", Quoted(name)));
    cut_of[*whole] = k;
    is_cut[k] = true;
  }
  std::vector<size_t> node_set_of(l, JoinedTensor::kNone);
  const auto node_set = [&](size_t component) -> absl::StatusOr<size_t> {
    if (node_set_of[component] != JoinedTensor::kNone) return node_set_of[component];
    const std::string name = absl::StrCat(sizes.name(component), ".#number");
    const auto number = stored.TensorIndex(name);
    if (!number || stored.tensors()[*number].component != component ||
        stored.row_bytes(*number) != sizeof(int64_t)) {
      return IsNoPart(absl::StrCat("it has no numbers ", Quoted(name)));
    }
    node_set_of[component] = parts.node_sets_.size();
    parts.node_sets_.push_back({component, *number});
    return node_set_of[component];
  };

  std::vector<std::string> names;
  std::vector<size_t> joined_of(l + 1, l);
  for (size_t k = 0; k < l; ++k) {
    if (is_cut[k]) continue;
    joined_of[k] = names.size();
    names.emplace_back(sizes.name(k));
    parts.stored_components_.push_back(k);
    parts.edge_set_of_.push_back(cut_of[k] ? parts.edge_sets_.size() : JoinedTensor::kNone);
    if (!cut_of[k]) continue;
    EdgeSet edges;
    edges.source_set = edges.target_set = JoinedTensor::kNone;
    edges.component = k;
    edges.cut = *cut_of[k];
    const auto source = stored.TensorIndex(absl::StrCat(sizes.name(edges.cut), ".#source"));
    if (!source || stored.tensors()[*source].dtype != DType::kUint32 ||
        !stored.tensors()[*source].row_shape.empty() ||
        stored.tensors()[*source].component != edges.cut) {
      return IsNoPart(absl::StrCat("it has no sources of ", Quoted(sizes.name(edges.cut))));
    }
    edges.cut_source = *source;
    parts.edge_sets_.push_back(edges);
  }
  if (parts.edge_sets_.empty()) return IsNoPart("no component has cut edges");
  joined_of[l] = names.size();

  std::vector<TensorSpec> tensors;
  for (size_t t = 0; t < stored.tensors().size(); ++t) {
    const TensorSpec& spec = stored.tensors()[t];
    if (spec.component < l && is_cut[spec.component]) continue;
    if (spec.layout != Layout::kRowsFirst) return IsNoPart("it has rows last");
    JoinedTensor tensor;
    tensor.stored = t;
    const size_t e =
        spec.component == l ? JoinedTensor::kNone : parts.edge_set_of_[joined_of[spec.component]];
    if (e != JoinedTensor::kNone) {
      EdgeSet& edges = parts.edge_sets_[e];
      tensor.edge_set = e;
      const absl::string_view set = sizes.name(edges.component);
      absl::string_view feature = spec.name;
      if (!absl::ConsumePrefix(&feature, absl::StrCat(set, "."))) {
        return IsNoPart(absl::StrCat("tensor ", Quoted(spec.name), " is of no set"));
      }
      tensor.is_source = spec.index_into && (feature == "source" || feature == "#source");
      const bool is_target = spec.index_into && (feature == "target" || feature == "#target");
      if (spec.index_into && !tensor.is_source && !is_target) {
        return IsNoPart(absl::StrCat("tensor ", Quoted(spec.name), " is no end of edges"));
      }
      if (spec.index_into && spec.dtype != DType::kInt32) {
        return IsNoPart(absl::StrCat("tensor ", Quoted(spec.name), " is not of int32"));
      }
      if (tensor.is_source) {
        PH_ASSIGN_OR_RETURN(edges.source_set, node_set(*spec.index_into));
        tensor.stored_cut = edges.cut_source;
      } else {
        if (is_target) {
          PH_ASSIGN_OR_RETURN(edges.target_set, node_set(*spec.index_into));
        }
        const auto cut = stored.TensorIndex(absl::StrCat(sizes.name(edges.cut), ".", feature));
        if (!cut || stored.tensors()[*cut].component != edges.cut ||
            stored.row_bytes(*cut) != stored.row_bytes(t) ||
            stored.tensors()[*cut].index_into != spec.index_into) {
          return IsNoPart(absl::StrCat("cut edges have no ", Quoted(spec.name)));
        }
        tensor.stored_cut = *cut;
      }
    }
    parts.tensors_.push_back(tensor);
    tensors.push_back(spec);
    tensors.back().component = joined_of[spec.component];
    if (spec.index_into) tensors.back().index_into = joined_of[*spec.index_into];
  }
  for (const EdgeSet& edges : parts.edge_sets_) {
    if (edges.source_set == JoinedTensor::kNone || edges.target_set == JoinedTensor::kNone) {
      return IsNoPart(absl::StrCat(Quoted(sizes.name(edges.component)), " has no ends"));
    }
  }
  PH_ASSIGN_OR_RETURN(SizeSchema joined_sizes, SizeSchema::Create(std::move(names)));
  PH_ASSIGN_OR_RETURN(GraphSchema joined,
                      GraphSchema::Create(std::move(joined_sizes), std::move(tensors)));
  parts.joined_ = std::make_shared<const GraphSchema>(std::move(joined));
  return parts;
}

}  // namespace packhouse
