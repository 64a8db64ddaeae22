// GraphSets::FromSchema: roles that follow from names.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/graph_sets.h"
#include "service/wings/tfgnn/tensor_names.h"

namespace packhouse::tfgnn {
namespace {

// Features of one component: the tensors by what they are called within it.
using TensorsByName = std::map<std::string, size_t, std::less<>>;

struct EdgeEnds {
  size_t source;
  size_t target;
};

constexpr std::pair<absl::string_view, absl::string_view> kPairsOfEnds[] = {
    {"source", "target"}, {"senders", "receivers"}, {"src", "dst"},
    {"row", "col"},       {"#source", "#target"},
};

absl::string_view NameWithin(const TensorSpec& tensor, absl::string_view component) {
  absl::string_view name = tensor.name;
  if (name.size() > component.size() && absl::StartsWith(name, component) &&
      name[component.size()] == '.') {
    name.remove_prefix(component.size() + 1);
  }
  return name;
}

absl::Status InvalidRole(const TensorSpec& tensor, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("schema: tensor ", Quoted(tensor.name), ": ", why));
}

// The components' tensors by their names, and what became of the components.
class Roles {
 public:
  explicit Roles(const GraphSchema& schema) : schema_(schema) {}

  absl::Status Read();

  std::vector<RowSet> node_sets;
  std::vector<EdgeSet> edge_sets;
  RowSet context;

 private:
  absl::Status SortTensors();
  std::optional<EdgeEnds> EndsOf(size_t component) const;
  // Puts each component into one of the three lists.
  void SortComponents();
  // Makes one feature of each ragged one's tensors, and takes these out of of_component_.
  absl::Status TakeRagged();
  absl::Status TakeRaggedValues(size_t values);
  absl::Status MakeSets();
  std::vector<Feature> FeaturesOf(size_t component);

  const GraphSchema& schema_;
  std::vector<TensorsByName> of_component_;
  std::map<size_t, EdgeEnds> ends_;
  std::vector<size_t> node_components_;
  // Tensors that are alone in a component of their own name, by their names.
  std::map<std::string, size_t, std::less<>> own_;
  std::map<size_t, std::vector<Feature>> ragged_;
};

absl::Status Roles::SortTensors() {
  of_component_.resize(schema_.num_components() + 1);
  for (size_t t = 0; t < schema_.tensors().size(); ++t) {
    const TensorSpec& tensor = schema_.tensors()[t];
    const absl::string_view component = schema_.sizes().name(tensor.component);
    const auto [at, is_new] =
        of_component_[tensor.component].emplace(NameWithin(tensor, component), t);
    if (!is_new) {
      return InvalidRole(tensor, absl::StrCat("it means the same as tensor ",
                                              Quoted(schema_.tensors()[at->second].name)));
    }
  }
  return absl::OkStatus();
}

std::optional<EdgeEnds> Roles::EndsOf(size_t component) const {
  const TensorsByName& tensors = of_component_[component];
  const size_t graphs = schema_.num_components();
  const auto is_end = [&](TensorsByName::const_iterator found, bool is_joined) {
    if (found == tensors.end()) return false;
    const TensorSpec& tensor = schema_.tensors()[found->second];
    if (!tensor.index_into || *tensor.index_into == graphs) return false;
    return is_joined ? tensor.row_shape == std::vector<uint32_t>{2} : tensor.row_shape.empty();
  };
  const auto joined = tensors.find(absl::string_view("edge_index"));
  if (is_end(joined, true)) return EdgeEnds{joined->second, joined->second};
  for (const auto& [source_name, target_name] : kPairsOfEnds) {
    const auto source = tensors.find(source_name);
    const auto target = tensors.find(target_name);
    if (is_end(source, false) && is_end(target, false)) {
      return EdgeEnds{source->second, target->second};
    }
  }
  return std::nullopt;
}

void Roles::SortComponents() {
  std::set<size_t> touched;
  if (const auto nodes = schema_.sizes().IndexOf("nodes")) touched.insert(*nodes);
  for (size_t k = 0; k < schema_.num_components(); ++k) {
    const std::optional<EdgeEnds> ends = EndsOf(k);
    if (!ends) continue;
    ends_.emplace(k, *ends);
    touched.insert(*schema_.tensors()[ends->source].index_into);
    touched.insert(*schema_.tensors()[ends->target].index_into);
  }
  for (size_t k = 0; k < schema_.num_components(); ++k) {
    if (ends_.count(k) != 0) continue;
    const TensorsByName& tensors = of_component_[k];
    const bool is_own = touched.count(k) == 0 && tensors.size() == 1 &&
                        schema_.tensors()[tensors.begin()->second].name == schema_.sizes().name(k);
    if (is_own) {
      own_.emplace(std::string(schema_.sizes().name(k)), tensors.begin()->second);
    } else {
      node_components_.push_back(k);
    }
  }
}

absl::Status Roles::TakeRaggedValues(size_t values) {
  const TensorSpec& tensor = schema_.tensors()[values];
  // The longest name of a set that the tensor's name begins with; otherwise the whole graph.
  size_t owner = schema_.num_components();
  absl::string_view name = tensor.name;
  const auto consider = [&](size_t k) {
    const absl::string_view within = NameWithin(tensor, schema_.sizes().name(k));
    if (within.size() >= name.size()) return;
    owner = k;
    name = within;
  };
  for (const size_t k : node_components_) consider(k);
  for (const auto& [k, ends] : ends_) consider(k);

  // Lengths may be any integers: those that come from elsewhere are checked where they are read.
  Feature feature;
  size_t dims = 0;
  const auto take_lengths = [&](size_t number, size_t t) {
    const TensorSpec& lengths = schema_.tensors()[t];
    if (!IsInteger(lengths.dtype) || lengths.index_into || lengths.layout != Layout::kRowsFirst ||
        dims + lengths.row_shape.size() + 1 != number) {
      return false;
    }
    feature.shape.insert(feature.shape.end(), lengths.row_shape.begin(), lengths.row_shape.end());
    feature.shape.push_back(-1);
    feature.ragged.push_back({static_cast<uint32_t>(number), t});
    dims = number;
    return true;
  };
  std::string first_lengths;
  for (size_t number = 1; number <= GraphSchema::kMaxRank + 1 && dims == 0; ++number) {
    first_lengths = LengthsName(name, number);
    const auto found = of_component_[owner].find(first_lengths);
    if (found != of_component_[owner].end()) take_lengths(number, found->second);
  }
  // Not the values of a ragged feature; perhaps the lengths of one.
  if (dims == 0) return absl::OkStatus();
  std::vector<std::string> used = {tensor.name};
  // A feature has no more dimensions than there are tensors of lengths and extents before them.
  for (size_t number = dims + 1; number <= dims + GraphSchema::kMaxRank + 1; ++number) {
    const auto found = own_.find(LengthsName(tensor.name, number));
    if (found != own_.end() && take_lengths(number, found->second)) used.push_back(found->first);
  }
  feature.shape.insert(feature.shape.end(), tensor.row_shape.begin(), tensor.row_shape.end());
  feature.dtype = tensor.dtype;
  feature.values = values;
  feature.is_text = tensor.dtype == DType::kUint8 && tensor.row_shape.empty() &&
                    absl::ConsumeSuffix(&name, kBytesEnding);
  if (feature.is_text) feature.shape.pop_back();
  feature.name = std::string(name);
  ragged_[owner].push_back(std::move(feature));
  of_component_[owner].erase(of_component_[owner].find(first_lengths));
  for (const std::string& each : used) own_.erase(own_.find(each));
  return absl::OkStatus();
}

absl::Status Roles::TakeRagged() {
  std::vector<size_t> tensors;
  for (const auto& [name, t] : own_) tensors.push_back(t);
  for (const size_t t : tensors) {
    if (own_.count(schema_.tensors()[t].name) != 0) PH_RETURN_IF_ERROR(TakeRaggedValues(t));
  }
  if (own_.empty()) return absl::OkStatus();
  return InvalidRole(schema_.tensors()[own_.begin()->second],
                     "its rows belong to no node set, edge set or ragged feature");
}

std::vector<Feature> Roles::FeaturesOf(size_t component) {
  std::vector<Feature> features = std::move(ragged_[component]);
  for (const auto& [name, t] : of_component_[component]) {
    const auto ends = ends_.find(component);
    if (ends != ends_.end() && (t == ends->second.source || t == ends->second.target)) continue;
    const TensorSpec& tensor = schema_.tensors()[t];
    Feature feature;
    feature.name = name;
    feature.shape.assign(tensor.row_shape.begin(), tensor.row_shape.end());
    feature.dtype = tensor.dtype;
    feature.values = t;
    features.push_back(std::move(feature));
  }
  std::sort(features.begin(), features.end(),
            [](const Feature& a, const Feature& b) { return a.name < b.name; });
  return features;
}

absl::Status Roles::MakeSets() {
  std::map<size_t, size_t> position;
  for (const size_t k : node_components_) {
    position.emplace(k, node_sets.size());
    node_sets.push_back({std::string(schema_.sizes().name(k)), k, FeaturesOf(k)});
  }
  for (const auto& [k, ends] : ends_) {
    EdgeSet edges;
    edges.name = std::string(schema_.sizes().name(k));
    edges.component = k;
    edges.features = FeaturesOf(k);
    edges.source = ends.source;
    edges.target = ends.target;
    for (const size_t t : {ends.source, ends.target}) {
      const size_t nodes = *schema_.tensors()[t].index_into;
      if (position.count(nodes) == 0) {
        return InvalidRole(schema_.tensors()[t],
                           absl::StrCat("it points into ", Quoted(schema_.sizes().name(nodes)),
                                        ", which is no node set"));
      }
    }
    edges.source_set = position[*schema_.tensors()[ends.source].index_into];
    edges.target_set = position[*schema_.tensors()[ends.target].index_into];
    edge_sets.push_back(std::move(edges));
  }
  context.component = schema_.num_components();
  context.features = FeaturesOf(schema_.num_components());
  // A dense and a ragged feature may have one name.
  const auto check = [](const RowSet& set) {
    const auto same =
        std::adjacent_find(set.features.begin(), set.features.end(),
                           [](const Feature& a, const Feature& b) { return a.name == b.name; });
    if (same == set.features.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("schema: ", Quoted(set.name), " has two features ", Quoted(same->name)));
  };
  PH_RETURN_IF_ERROR(check(context));
  for (const RowSet& set : node_sets) PH_RETURN_IF_ERROR(check(set));
  for (const RowSet& set : edge_sets) PH_RETURN_IF_ERROR(check(set));
  return absl::OkStatus();
}

absl::Status Roles::Read() {
  PH_RETURN_IF_ERROR(SortTensors());
  SortComponents();
  PH_RETURN_IF_ERROR(TakeRagged());
  return MakeSets();
}

}  // namespace

absl::StatusOr<GraphSets> GraphSets::FromSchema(GraphSchema schema) {
  GraphSets sets;
  sets.schema_ = std::make_shared<const GraphSchema>(std::move(schema));
  Roles roles(*sets.schema_);
  PH_RETURN_IF_ERROR(roles.Read());
  sets.node_sets_ = std::move(roles.node_sets);
  sets.edge_sets_ = std::move(roles.edge_sets);
  sets.context_ = std::move(roles.context);
  return sets;
}

}  // namespace packhouse::tfgnn
