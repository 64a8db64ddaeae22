#include "service/algorithms/pieces/piece_schema.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kOfGraph[] = {"#piece", "#pieces", "#cut_edges"};

// Whether a tensor has the lengths of the ragged feature `name` in its dimension `number`.
bool IsLengths(const TensorSpec& tensor, absl::string_view name, size_t& number) {
  absl::string_view rest = tensor.name;
  uint64_t parsed = 0;
  if (!absl::ConsumePrefix(&rest, name) || !absl::ConsumePrefix(&rest, ".d") ||
      !absl::SimpleAtoi(rest, &parsed) || tensor.index_into ||
      (tensor.dtype != DType::kInt32 && tensor.dtype != DType::kInt64)) {
    return false;
  }
  number = parsed;
  return true;
}

// Finds the lengths along which the rows of component k lie: the values of a feature F belong to
// the steps of its last dimension, the lengths `F.d2` to those of `F.d1`, and so on.
std::optional<size_t> LengthsOf(const GraphSchema& schema, size_t k) {
  const absl::string_view name = schema.sizes().name(k);
  absl::string_view feature = name;
  size_t of = SIZE_MAX;  // The dimension that this component is; the values are the last.
  if (const size_t dot = name.rfind(".d"); dot != absl::string_view::npos) {
    uint64_t parsed = 0;
    if (absl::SimpleAtoi(name.substr(dot + 2), &parsed)) {
      feature = name.substr(0, dot);
      of = parsed;
    }
  }
  std::optional<size_t> found;
  size_t best = 0;
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    size_t number = 0;
    if (!IsLengths(schema.tensors()[t], feature, number) || number >= of) continue;
    if (schema.tensors()[t].component == k || (found && number <= best)) continue;
    found = t;
    best = number;
  }
  return found;
}

absl::Status CannotCut(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("oversize_policy: graphs of this schema cannot be cut: ", what));
}

}  // namespace

absl::StatusOr<PieceSchema> PieceSchema::Create(const GraphSchema& whole) {
  const size_t l = whole.num_components();
  PieceSchema pieces;
  pieces.whole_ = std::make_shared<const GraphSchema>(whole);
  pieces.components_.resize(l);
  // before[k]: the components whose rows in a piece must be known before those of k: the ones that
  // k's indices lead to, or along which its lengths lie.
  std::vector<std::vector<size_t>> before(l);
  for (size_t t = 0; t < whole.tensors().size(); ++t) {
    const TensorSpec& spec = whole.tensors()[t];
    if (!spec.index_into) continue;
    if (spec.component == l || *spec.index_into == l) {
      return CannotCut(absl::StrCat("the index tensor ", Quoted(spec.name), " is about graphs"));
    }
    pieces.components_[spec.component].indices.push_back(t);
    before[spec.component].push_back(*spec.index_into);
  }
  for (size_t k = 0; k < l; ++k) {
    if (!pieces.components_[k].indices.empty() || !whole.IsRaggedFeature(k)) continue;
    const auto lengths = LengthsOf(whole, k);
    if (!lengths) {
      return CannotCut(
          absl::StrCat("the ragged feature ", Quoted(whole.sizes().name(k)), " has no lengths"));
    }
    if (whole.tensors()[*lengths].component == l) {
      return CannotCut(
          absl::StrCat("the ragged feature ", Quoted(whole.sizes().name(k)), " is one of graphs"));
    }
    pieces.components_[k].lengths = lengths;
    before[k].push_back(whole.tensors()[*lengths].component);
  }
  // An order in which each component stands after those before it.
  std::vector<bool> placed(l);
  while (pieces.order_.size() < l) {
    const size_t had = pieces.order_.size();
    for (size_t k = 0; k < l; ++k) {
      const bool ready = std::all_of(before[k].begin(), before[k].end(),
                                     [&](size_t other) { return placed[other]; });
      if (placed[k] || !ready) continue;
      placed[k] = true;
      pieces.order_.push_back(k);
    }
    if (pieces.order_.size() == had) return CannotCut("its index tensors lead in a circle");
  }
  std::vector<TensorSpec> tensors(whole.tensors().begin(), whole.tensors().end());
  const auto add = [&](std::string name, DType dtype, size_t component) {
    TensorSpec spec;
    spec.name = std::move(name);
    spec.dtype = dtype;
    spec.component = component;
    tensors.push_back(std::move(spec));
    return tensors.size() - 1;
  };
  for (const absl::string_view name : kOfGraph) add(std::string(name), DType::kUint32, l);
  for (size_t k = 0; k < l; ++k) {
    Component& component = pieces.components_[k];
    // The steps of a ragged feature go with the rows that they are of.
    if (component.lengths) continue;
    component.row = add(absl::StrCat(whole.sizes().name(k), ".#row"), DType::kUint32, k);
    component.inner = add(absl::StrCat(whole.sizes().name(k), ".#inner"), DType::kBool, k);
  }
  PH_ASSIGN_OR_RETURN(GraphSchema with_pieces,
                      GraphSchema::Create(whole.sizes(), std::move(tensors)));
  pieces.with_pieces_ = std::make_shared<const GraphSchema>(std::move(with_pieces));
  return pieces;
}

std::optional<PieceSchema> PieceSchema::Of(const GraphSchema& with_pieces) {
  const auto first = with_pieces.TensorIndex(kOfGraph[0]);
  if (!first) return std::nullopt;
  std::vector<TensorSpec> tensors(with_pieces.tensors().begin(),
                                  with_pieces.tensors().begin() + static_cast<ptrdiff_t>(*first));
  const auto whole = GraphSchema::Create(with_pieces.sizes(), std::move(tensors));
  if (!whole.ok()) return std::nullopt;
  absl::StatusOr<PieceSchema> pieces = Create(*whole);
  if (!pieces.ok()) return std::nullopt;
  const auto a = pieces->with_pieces().tensors();
  const auto b = with_pieces.tensors();
  const bool same = std::equal(a.begin(), a.end(), b.begin(), b.end(),
                               [](const TensorSpec& x, const TensorSpec& y) {
                                 return x.name == y.name && x.dtype == y.dtype &&
                                        x.component == y.component && x.row_shape == y.row_shape;
                               });
  if (!same) return std::nullopt;
  return *std::move(pieces);
}

}  // namespace packhouse
