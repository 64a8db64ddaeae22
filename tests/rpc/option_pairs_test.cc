// Every pair of an epoch's options, through the service: either the epoch is delivered exactly
// once, with the same bytes twice and whatever becomes of a worker, or it is refused in the words
// of the table (engine/epochs/option_rules.h, and what the wings add to it).
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "service/base/mixture_name.h"
#include "service/engine/epochs/option_rules.h"
#include "service/server/calls/wire_graphs.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "service/wings/partition/epochs/joined_epoch.h"
#include "tests/epochs/parts_worlds.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random_graphs.h"
#include "tests/support/source_graph_world.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ids = std::multiset<uint64_t>;

constexpr uint64_t kFirstId = 1000;
constexpr uint64_t kNumGraphs = 280;
constexpr uint64_t kGroupSize = 3;
// No batch of the usual limits takes it.
constexpr uint64_t kLargeId = kFirstId + 17;
// Of the mixture's other data set, whose graphs have ids of the first one, too.
constexpr uint64_t kFirstOtherId = kFirstId + 60;
constexpr uint64_t kNumOthers = 50;
// Of the graphs, how many a subset lists.
constexpr uint64_t kNumListed = 82;
constexpr uint32_t kNumSeeds = 60;
constexpr uint64_t kNumListedSeeds = 32;
constexpr uint32_t kNumRanks = 2;
constexpr uint32_t kLeastNodes = 3;

// --- The table.

std::vector<EpochRule> AllRules() {
  std::vector<EpochRule> rules;
  for (const auto& of : {JoinedEpoch::Rules(), SampledEpoch::Rules(), EngineRules()}) {
    rules.insert(rules.end(), of.begin(), of.end());
  }
  return rules;
}

// --- What is loaded.

GraphSchema PairsSchema(bool has_score = true) {
  std::vector<TensorSpec> tensors = {{"x", DType::kFloat32, {3}, 0, {}, {}},
                                     {"edge_index", DType::kInt32, {2}, 1, 0, {}}};
  if (has_score) tensors.push_back({"score", DType::kInt16, {}, 2, {}, {}});
  return GraphSchema::Create(SizeSchema::NodesAndEdges(), std::move(tensors)).value();
}

// What a law needs to know of a stored graph.
struct Stored {
  uint64_t id = 0;
  uint32_t nodes = 0;
};

void AddCapacity(const std::string& component, uint64_t rows, v1::Limits& limits) {
  v1::Capacity& capacity = *limits.add_capacities();
  capacity.set_component(component);
  capacity.set_rows(rows);
}

// A data set of graphs in groups, another to mix with it, one of parts, and a source graph; made
// once, read by all.
class PairsWorld {
 public:
  PairsWorld() {
    const GraphSchema schema = PairsSchema();
    Random random(5);
    DatasetOptions options;
    options.grouped = true;
    EXPECT_THAT(store().Create("graphs", schema, options), IsOk());
    // In two chunks for each group but for the large graph: enough for two segments.
    for (uint64_t i = 0; i < kNumGraphs; ++i) {
      GraphChunk chunk = RandomChunk(random, &schema, 1, 9, kFirstId + i);
      while (kFirstId + i == kLargeId && (chunk.sizes().tuple(0)[0] < 60)) {
        chunk = RandomChunk(random, &schema, 1, 90, kFirstId + i);
      }
      graphs_of_set_.push_back({kFirstId + i, chunk.sizes().tuple(0)[0]});
      EXPECT_THAT(store().Append("graphs", chunk, {GroupOf(kFirstId + i)}, std::nullopt), IsOk());
    }
    EXPECT_THAT(store().Seal("graphs"), IsOk());
    // It has no groups, and its graphs no score.
    const GraphSchema narrow = PairsSchema(/*has_score=*/false);
    EXPECT_THAT(store().Create("others", narrow, DatasetOptions()), IsOk());
    for (uint64_t i = 0; i < kNumOthers; ++i) {
      const GraphChunk chunk = RandomChunk(random, &narrow, 1, 9, kFirstOtherId + i);
      others_.push_back({kFirstOtherId + i, chunk.sizes().tuple(0)[0]});
      EXPECT_THAT(store().Append("others", chunk, {}, std::nullopt), IsOk());
    }
    EXPECT_THAT(store().Seal("others"), IsOk());
    const DatasetInfo info = store().Get("parts").value();
    num_parts_ = info.num_graphs;
    const GraphSchema joined = PartsSchema::Of(*info.schema)->joined();
    const std::vector<uint64_t> capacities = parts_.HalfOfAll();
    for (size_t k = 0; k < joined.num_components(); ++k) {
      AddCapacity(std::string(joined.sizes().name(k)), capacities[k], limits_of_parts_);
    }
    AddCapacity("graphs", 4, limits_of_parts_);
  }

  static uint64_t GroupOf(uint64_t id) { return 100 + (id - kFirstId) / kGroupSize; }

  // In their order; of samples, the seeds.
  std::vector<Stored> GraphsOf(const v1::EpochSpec& spec) const {
    std::vector<Stored> all = graphs_of_set_;
    if (spec.has_samples()) {
      all.clear();
      for (uint64_t i = 0; i < kNumSeeds; ++i) all.push_back({i, 0});
    }
    if (IsMixture(spec.dataset())) all.insert(all.end(), others_.begin(), others_.end());
    return all;
  }

  DatasetStore& store() { return parts_.store(); }
  SourceGraphStore& graphs() { return graphs_; }
  uint64_t num_parts() const { return num_parts_; }
  const v1::Limits& limits_of_parts() const { return limits_of_parts_; }

 private:
  PartsWorld parts_{kSeedWithEdges};
  OneGraphStore graphs_{SmallSourceGraph(kNumSeeds)};
  std::vector<Stored> graphs_of_set_;
  std::vector<Stored> others_;
  uint64_t num_parts_ = 0;
  v1::Limits limits_of_parts_;
};

PairsWorld& World() {
  static auto* const world = new PairsWorld();
  return *world;
}

// The first id, another one and the end of the range of a subset, all of them after that first id.
struct Listed {
  uint64_t first_id = 0;
  uint64_t other = 0;
  uint64_t end = 0;
};
Listed ListedOf(const v1::EpochSpec& spec) {
  return spec.has_samples() ? Listed{0, 3, 8 + kNumListedSeeds} : Listed{kFirstId, 200, 90};
}

// Those that the epoch's subset lists, or all; in their order.
std::vector<Stored> SelectedOf(const v1::EpochSpec& spec) {
  const Listed listed = ListedOf(spec);
  std::vector<Stored> selected;
  for (const Stored& graph : World().GraphsOf(spec)) {
    const uint64_t i = graph.id - listed.first_id;
    const bool is_listed = i == 7 || i == listed.other || (i >= 10 && i < listed.end);
    if (!spec.has_subset() || is_listed) selected.push_back(graph);
  }
  return selected;
}

// --- Options.

enum class Use { kRanks, kDynamic, kEvaluation, kExport };

struct Asked {
  v1::EpochSpec spec;
  Use use = Use::kRanks;
};

struct Choice {
  std::string name;
  // What the table calls it.
  std::vector<absl::string_view> is;
  // Two choices of one slot cannot be made at once.
  std::set<std::string> slots;
  std::function<void(Asked&)> set;
};

v1::Limits Larger(v1::Limits limits, uint64_t times) {
  for (v1::Capacity& capacity : *limits.mutable_capacities()) {
    capacity.set_rows(capacity.rows() * times);
  }
  return limits;
}

v1::Limits UsualLimits(const v1::EpochSpec& spec) {
  if (spec.dataset() == "parts") return World().limits_of_parts();
  v1::Limits limits;
  AddCapacity(spec.has_samples() ? "n" : "nodes", 48, limits);
  AddCapacity(spec.has_samples() ? "e" : "edges", 80, limits);
  AddCapacity("graphs", 12, limits);
  return limits;
}

void SetDevice(uint32_t num_shapes, v1::EpochSpec& spec) {
  const v1::Limits limits = UsualLimits(spec);
  v1::RankGroup& group = *spec.mutable_rank_groups(0);
  group.clear_shapes();
  v1::DeviceProfile& device = *group.mutable_device_profile();
  device.set_max_distinct_shapes(num_shapes);
  for (const v1::Capacity& capacity : limits.capacities()) {
    v1::DeviceProfile::Component& component = *device.add_components();
    component.set_component(capacity.component());
    component.set_min_rows(capacity.rows());
    component.set_max_rows(capacity.rows() * num_shapes);
    component.set_multiple_of(capacity.rows());
  }
}

void SetSamples(v1::EpochSpec& spec) {
  v1::SampleSpec& samples = *spec.mutable_samples();
  samples.mutable_sub_graphs()->set_graph("g");
  samples.mutable_sub_graphs()->set_text(TwoHopSpec(4, 3));
  samples.set_window(25);
}

// By the places of the graphs that are selected.
void SetWeights(v1::EpochSpec& spec, const std::function<double(size_t)>& weight_of) {
  std::string weights;
  for (size_t i = 0; i < SelectedOf(spec).size(); ++i) {
    const double weight = weight_of(i);
    weights.append(reinterpret_cast<const char*>(&weight), sizeof(weight));
  }
  spec.mutable_draw()->set_weights(weights);
}

void SetMixture(v1::EpochSpec& spec) {
  spec.set_dataset(spec.join_parts() ? "parts+graphs" : "graphs+others");
}

using S = v1::EpochSpec&;
using Add = std::function<void(std::string name, std::vector<absl::string_view> is,
                               std::set<std::string> slots, const std::function<void(S)>& set)>;
constexpr absl::string_view kOther = options::kNotOneShape.name;

// Where items come from, which, and in which order.
void AddItems(const Add& add) {
  add("samples", {options::kSamples.name}, {"samples"}, [](S s) { SetSamples(s); });
  add("samples with exact steps", {options::kSamples.name}, {"samples"}, [](S s) {
    SetSamples(s);
    s.mutable_samples()->set_exact_steps(true);
    s.mutable_samples()->set_beyond_limits(v1::BEYOND_LIMITS_DRAW_SMALLER);
  });
  add("samples of seeds", {options::kSamples.name}, {"samples"}, [](S s) {
    SetSamples(s);
    std::vector<uint32_t> all_nodes(kNumSeeds);
    for (uint32_t i = 0; i < kNumSeeds; ++i) all_nodes[i] = i;
    s.mutable_samples()->mutable_seeds()->set_numbers(Uint32sToWire(all_nodes));
    s.mutable_samples()->set_beyond_limits(v1::BEYOND_LIMITS_REFUSE);
  });
  add("a data set", {"a data set"}, {"dataset"}, [](S s) {
    if (s.dataset().empty()) s.set_dataset("graphs");
  });
  add("a mixture", {"a data set", options::kMixture.name}, {"dataset"}, [](S s) { SetMixture(s); });
  add("join_parts", {options::kJoinParts.name}, {"join_parts"}, [](S s) {
    if (!s.has_samples()) s.set_dataset("parts");
    s.set_join_parts(true);
  });
  add("in_order", {options::kInOrder.name}, {"in_order"}, [](S s) { s.set_in_order(true); });
  add("look_ahead", {options::kLookAhead.name}, {"look_ahead"}, [](S s) { s.set_look_ahead(9); });
  add("grouped", {options::kGrouped.name}, {"grouped"}, [](S s) { s.set_grouped(true); });
  add("subset", {options::kSubset.name}, {"subset"}, [](S s) {
    const Listed listed = ListedOf(s);
    s.mutable_subset()->set_graph_ids(
        Uint64sToWire({listed.first_id + listed.other, listed.first_id + 7}));
    s.mutable_subset()->add_ranges()->set_first(listed.first_id + 10);
    s.mutable_subset()->mutable_ranges(0)->set_count(listed.end - 10);
  });
  // Of seeds there are fewer.
  add("draw", {options::kDraw.name}, {"draw"},
      [](S s) { s.mutable_draw()->set_num_graphs(s.has_samples() ? 20 : 50); });
  add("draw with replacement", {options::kDraw.name}, {"draw"}, [](S s) {
    s.mutable_draw()->set_num_graphs(70);
    s.mutable_draw()->set_with_replacement(true);
    SetWeights(s, [](size_t i) { return static_cast<double>(i % 3); });
  });
  add("draw by weights", {options::kDraw.name}, {"draw"}, [](S s) {
    s.mutable_draw()->set_num_graphs(s.has_samples() ? 13 : 40);
    SetWeights(s, [](size_t i) { return static_cast<double>(i % 3); });
  });
  // Graphs of the other data set ten times as often.
  add("a mixture by weights", {"a data set", options::kMixture.name, options::kDraw.name},
      {"dataset", "draw"}, [](S s) {
        SetMixture(s);
        s.mutable_draw()->set_num_graphs(90);
        s.mutable_draw()->set_with_replacement(true);
        const size_t num_first = s.has_subset() ? kNumListed : kNumGraphs;
        SetWeights(s, [num_first](size_t i) { return i < num_first ? 0.1 : 1.0; });
      });
}

// Limits, and what happens to what exceeds them.
void AddLimits(const Add& add) {
  add("min_rows", {options::kMinRows.name}, {"min_rows", "padding"}, [](S s) {
    s.set_padding(v1::PADDING_TFGNN);
    v1::Capacity& least = *s.add_min_rows();
    least.set_component(UsualLimits(s).capacities(0).component());
    // Each sub-graph has its seed, and none is left out.
    least.set_rows(s.has_samples() ? 1 : kLeastNodes);
  });
  add("several shapes", {options::kSeveralShapes.name, kOther}, {"rank_groups"}, [](S s) {
    *s.mutable_rank_groups(0)->add_shapes() = UsualLimits(s);
    *s.mutable_rank_groups(0)->mutable_shapes(0) = Larger(UsualLimits(s), 3);
  });
  add("several rank groups", {options::kSeveralShapes.name, kOther}, {"rank_groups"}, [](S s) {
    *s.add_rank_groups()->add_shapes() = UsualLimits(s);
    *s.mutable_rank_groups(0)->mutable_shapes(0) = Larger(UsualLimits(s), 2);
    for (v1::RankGroup& group : *s.mutable_rank_groups()) group.set_num_ranks(kNumRanks / 2);
  });
  add("a device profile", {options::kDevice.name, kOther}, {"rank_groups"},
      [](S s) { SetDevice(1, s); });
  add("a device profile of two shapes",
      {options::kDevice.name, options::kSeveralShapes.name, kOther}, {"rank_groups"},
      [](S s) { SetDevice(2, s); });
  add("adaptive", {options::kAdaptive.name, options::kDevice.name, kOther, "measured_as"},
      {"rank_groups", "adaptive"}, [](S s) {
        SetDevice(1, s);
        s.mutable_rank_groups(0)->mutable_device_profile()->set_measured_as("gin/cpu");
        s.set_adaptive(true);
      });
  add("adaptive without measurements", {options::kAdaptive.name}, {"adaptive"},
      [](S s) { s.set_adaptive(true); });
  add("left out", {"oversize_policy"}, {"oversize_policy"},
      [](S s) { s.set_oversize_policy(v1::OVERSIZE_POLICY_REJECT); });
  add("an error", {"oversize_policy"}, {"oversize_policy"},
      [](S s) { s.set_oversize_policy(v1::OVERSIZE_POLICY_ERROR); });
  add("cut", {"oversize_policy", options::kCut.name}, {"oversize_policy"},
      [](S s) { s.set_oversize_policy(v1::OVERSIZE_POLICY_PARTITION); });
}

// What batches carry, how they differ from epoch to epoch, and how they come.
void AddBatches(const Add& add) {
  add("no padding", {}, {"padding"}, [](S s) { s.set_padding(v1::PADDING_NONE); });
  add("a padding graph", {}, {"padding"}, [](S s) { s.set_padding(v1::PADDING_GRAPH); });
  add("padding of TF-GNN", {}, {"padding"}, [](S s) { s.set_padding(v1::PADDING_TFGNN); });
  add("derived", {options::kDerived.name}, {"derived"}, [](S s) {
    s.add_derived(v1::DERIVED_TENSOR_ROW_COUNTS);
    s.add_derived(v1::DERIVED_TENSOR_GRAPH_INDEX);
    s.add_derived(v1::DERIVED_TENSOR_ROW_OFFSETS);
    s.add_derived(v1::DERIVED_TENSOR_MASKS);
  });
  add("whole graphs", {}, {"payload"}, [](S s) { s.set_payload(v1::PAYLOAD_GRAPHS); });
  add("sizes", {options::kSizes.name}, {"payload"}, [](S s) { s.set_payload(v1::PAYLOAD_SIZES); });
  add("declared integers", {}, {"integer_width"},
      [](S s) { s.set_integer_width(v1::INTEGER_WIDTH_DECLARED); });
  add("compact integers", {options::kCompactIntegers.name}, {"integer_width"},
      [](S s) { s.set_integer_width(v1::INTEGER_WIDTH_COMPACT); });
  add("mixing", {options::kMixing.name}, {"mixing"},
      [](S s) { s.mutable_mixing()->set_most_company(1.5); });
  add("mixing off", {}, {"mixing"}, [](S s) { s.mutable_mixing()->set_off(true); });
  add("order.shuffled", {options::kShuffledOrder.name}, {"order"},
      [](S s) { s.mutable_order()->mutable_shuffled(); });
  add("order.cost_balanced", {options::kCostBalanced.name}, {"order"}, [](S s) {
    v1::CostBalanced& balanced = *s.mutable_order()->mutable_cost_balanced();
    balanced.add_terms()->set_component(UsualLimits(s).capacities(1).component());
    if (s.rank_groups_size() == 1) balanced.set_num_ranks(kNumRanks);
  });
  add("order.cost_balanced of a device",
      {options::kCostBalanced.name, options::kDevice.name, kOther}, {"order", "rank_groups"},
      [](S s) {
        SetDevice(1, s);
        s.mutable_order()->mutable_cost_balanced()->set_num_ranks(kNumRanks);
      });
  add("order.by_score of a tensor", {options::kByScore.name}, {"order", "samples", "join_parts"},
      [](S s) { s.mutable_order()->mutable_by_score()->set_tensor("score"); });
  add("order.by_score of a component", {options::kByScore.name}, {"order"}, [](S s) {
    v1::ByScore& by_score = *s.mutable_order()->mutable_by_score();
    by_score.set_component(UsualLimits(s).capacities(0).component());
    by_score.set_descending(true);
    by_score.set_num_buckets(4);
  });
  add("segments", {options::kSegments.name}, {"segments"},
      [](S s) { s.mutable_segments()->set_graphs(100); });
  add("segments in tracks", {options::kSegments.name, options::kSeveralTracks.name}, {"segments"},
      [](S s) {
        s.mutable_segments()->set_graphs(100);
        s.mutable_segments()->set_tracks(3);
      });
}

std::vector<Choice> AllChoices() {
  std::vector<Choice> all;
  const Add add = [&all](std::string name, std::vector<absl::string_view> is,
                         std::set<std::string> slots, const std::function<void(S)>& set) {
    all.push_back({std::move(name), std::move(is), std::move(slots),
                   [set](Asked& asked) { set(asked.spec); }});
  };
  AddItems(add);
  AddLimits(add);
  AddBatches(add);
  // Who loads.
  const auto add_use = [&all](std::string name, std::vector<absl::string_view> is, Use use) {
    all.push_back({std::move(name), std::move(is), {"use"}, [use](Asked& asked) {
                     asked.use = use;
                     if (use == Use::kEvaluation || use == Use::kExport) asked.spec.clear_job();
                   }});
  };
  add_use("dynamic workers", {}, Use::kDynamic);
  add_use("an evaluation", {options::kNoJob.name}, Use::kEvaluation);
  add_use("an export", {options::kExport.name, options::kNoJob.name}, Use::kExport);
  return all;
}

const std::vector<Choice>& Choices() {
  static const auto* const choices = new std::vector<Choice>(AllChoices());
  return *choices;
}

// --- Pairs.

bool GoTogether(const Choice& a, const Choice& b) {
  return &a == &b || std::none_of(a.slots.begin(), a.slots.end(),
                                  [&](const std::string& slot) { return b.slots.contains(slot); });
}

// The epoch of both; of one, if they are the same.
Asked AskedOf(const Choice& a, const Choice& b, const std::string& job) {
  Asked asked;
  v1::EpochSpec& spec = asked.spec;
  spec.set_job(job);
  spec.set_epoch(2);
  spec.set_seed(7);
  spec.set_padding(v1::PADDING_MASKED);
  spec.add_rank_groups();
  // The source first: it decides the limits. Choices stand in this order.
  const auto set = [&](const Choice& choice, bool of_source) {
    const bool is_of_source =
        choice.slots.contains("samples") || choice.slots.contains("join_parts");
    if (is_of_source == of_source) choice.set(asked);
  };
  set(a, /*of_source=*/true);
  if (&a != &b) set(b, /*of_source=*/true);
  if (spec.dataset().empty() && !spec.has_samples()) spec.set_dataset("graphs");
  *spec.mutable_rank_groups(0)->add_shapes() = UsualLimits(spec);
  set(a, /*of_source=*/false);
  if (&a != &b) set(b, /*of_source=*/false);
  return asked;
}

// The row that refuses it; null if none does.
const EpochRule* RuleAgainst(const std::vector<EpochRule>& rules, const Choice& a, const Choice& b,
                             const Choice& use = {}) {
  std::set<absl::string_view> has(a.is.begin(), a.is.end());
  has.insert(b.is.begin(), b.is.end());
  has.insert(use.is.begin(), use.is.end());
  if (!has.contains(options::kInOrder.name)) has.insert(options::kNotInOrder.name);
  if (!has.contains("measured_as")) has.insert(options::kNothingMeasured.name);
  for (const EpochRule& rule : rules) {
    if (has.contains(rule.option->name) && has.contains(rule.other->name)) return &rule;
  }
  return nullptr;
}

// --- The law.

// What came of a way to load an epoch: batches by their numbers.
struct Delivered {
  absl::Status status;
  uint64_t num_graphs = 0;
  uint64_t num_rejected = 0;
  uint64_t num_pieces = 0;
  std::map<uint64_t, v1::LoadedBatch> batches;
  std::vector<uint64_t> order;
  bool came_twice = false;

  void Take(v1::LoadedBatch batch) {
    if (batch.is_padding()) return;
    batch.clear_is_redelivered();
    batch.clear_graphs_of_step();
    batch.mutable_batch()->clear_step();
    const uint64_t id = batch.batch().id();
    order.push_back(id);
    came_twice |= !batches.emplace(id, std::move(batch)).second;
  }
  Ids ids() const {
    Ids all;
    for (const auto& [number, batch] : batches) {
      for (const uint64_t id : Uint64sFromWire(batch.batch().graph_ids())) all.insert(id);
    }
    return all;
  }
  std::map<uint64_t, std::string> bytes() const {
    std::map<uint64_t, std::string> all;
    for (const auto& [number, batch] : batches) all.emplace(number, batch.SerializeAsString());
    return all;
  }
};

class OptionPairsTest : public ::testing::TestWithParam<size_t> {
 protected:
  OptionPairsTest() {
    LmdbJobLogs::Options log;
    log.first_revision = 1 << 20;
    log.folder = folder_.path() + "/delivery";
    ledger_ = LmdbJobLogs::Open(log).value();
    ServerOptions options;
    options.job_logs = ledger_.get();
    options.wings = {ServeTfgnn(), ServeGraphs(&World().graphs()),
                     ServePartitions(&World().graphs(), nullptr)};
    server_ = Server::Start(options, &clock_, &observer_, &observer_, &World().store()).value();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::LoaderService::NewStub(server_->InProcessChannel(arguments));
  }

  // One stream, until its end or until `most` batches came; all but the last are acknowledged then.
  void Load(const v1::LoadRequest& request, Delivered& delivered, size_t most = SIZE_MAX) {
    grpc::ClientContext context;
    const auto stream = stub_->Load(&context, request);
    v1::LoadResponse response;
    std::vector<v1::LoadedBatch> unacknowledged;
    v1::LoadOpened opened;
    const bool is_evaluation = request.has_evaluation();
    const auto acknowledge = [&] {
      if (is_evaluation || unacknowledged.empty()) return;
      v1::AcknowledgeRequest done;
      done.set_job(request.epoch().job());
      done.set_epoch(request.epoch().epoch());
      done.set_generation(opened.generation());
      done.set_session(opened.session());
      for (v1::LoadedBatch& batch : unacknowledged) {
        done.add_batches(batch.batch().id());
        delivered.Take(std::move(batch));
      }
      unacknowledged.clear();
      grpc::ClientContext call;
      v1::AcknowledgeResponse answer;
      EXPECT_THAT(ToAbsl(stub_->Acknowledge(&call, done, &answer)), IsOk());
    };
    size_t num_batches = 0;
    bool ended = false;
    while (num_batches < most && stream->Read(&response)) {
      if (response.has_opened()) {
        opened = response.opened();
        delivered.num_graphs = opened.epoch().num_graphs();
        delivered.num_rejected = opened.epoch().num_rejected();
        delivered.num_pieces = opened.epoch().num_pieces();
      } else if (response.has_batch()) {
        ++num_batches;
        if (is_evaluation) {
          delivered.Take(response.batch());
        } else {
          unacknowledged.push_back(response.batch());
          if (most != SIZE_MAX && num_batches == most) unacknowledged.pop_back();
          if (most == SIZE_MAX) acknowledge();
        }
      } else {
        ended = true;
      }
    }
    acknowledge();
    if (!ended && num_batches == most) context.TryCancel();
    const absl::Status status = ToAbsl(stream->Finish());
    if (ended || num_batches < most) delivered.status.Update(status);
    EXPECT_TRUE(ended || !delivered.status.ok() || num_batches == most);
  }

  static v1::LoadRequest RequestOf(const Asked& asked, const std::string& attempt, uint32_t worker,
                                   uint32_t num_workers) {
    v1::LoadRequest request;
    *request.mutable_epoch() = asked.spec;
    if (asked.use == Use::kEvaluation) {
      request.mutable_evaluation()->mutable_ranked()->set_rank(worker);
      request.mutable_evaluation()->mutable_ranked()->set_num_ranks(num_workers);
      return request;
    }
    request.set_attempt(attempt);
    request.set_max_in_flight(4);
    if (asked.use == Use::kDynamic) {
      request.mutable_dynamic()->set_worker(absl::StrCat("worker", worker));
      request.mutable_dynamic()->set_rank_group(worker % asked.spec.rank_groups_size());
    } else {
      request.mutable_ranked()->set_rank(worker);
      request.mutable_ranked()->set_num_ranks(num_workers);
    }
    return request;
  }

  Delivered LoadAll(const Asked& asked, const std::string& attempt, uint32_t num_workers) {
    Delivered delivered;
    for (uint32_t worker = 0; worker < num_workers && delivered.status.ok(); ++worker) {
      Load(RequestOf(asked, attempt, worker, num_workers), delivered);
    }
    return delivered;
  }

  absl::StatusOr<v1::Epoch> GetEpoch(const Asked& asked) {
    v1::GetEpochRequest request;
    *request.mutable_epoch() = asked.spec;
    if (asked.use == Use::kEvaluation) {
      *request.mutable_evaluation() = RequestOf(asked, "", 0, kNumRanks).evaluation();
    }
    grpc::ClientContext context;
    v1::Epoch epoch;
    const absl::Status status = ToAbsl(stub_->GetEpoch(&context, request, &epoch));
    if (!status.ok()) return status;
    return epoch;
  }

  struct Exported {
    absl::Status status;
    uint64_t num_graphs = 0;
    std::vector<uint64_t> ids;
    std::vector<std::string> examples;
  };
  Exported Export(const Asked& asked, uint64_t first, uint64_t count) {
    v1::ExportEpochRequest request;
    *request.mutable_epoch() = asked.spec;
    request.set_first_graph(first);
    request.set_num_graphs(count);
    grpc::ClientContext context;
    const auto stream = stub_->ExportEpoch(&context, request);
    v1::ExportDatasetResponse response;
    Exported exported;
    // Who waits for a segment sends nothing meanwhile.
    int num_empty = 0;
    while (stream->Read(&response)) {
      if (response.examples().empty()) ++num_empty;
      if (response.num_graphs() != 0) exported.num_graphs = response.num_graphs();
      EXPECT_EQ(response.first_graph(), first + exported.ids.size());
      for (const uint64_t id : Uint64sFromWire(response.graph_ids())) exported.ids.push_back(id);
      for (std::string& example : *response.mutable_examples()) {
        exported.examples.push_back(std::move(example));
      }
    }
    exported.status = ToAbsl(stream->Finish());
    EXPECT_LE(num_empty, exported.examples.empty() ? 1 : 0);
    return exported;
  }

  void DeleteJob(const std::string& job) {
    grpc::ClientContext context;
    v1::DeleteJobRequest request;
    request.set_job(job);
    v1::DeleteJobResponse response;
    (void)stub_->DeleteJob(&context, request, &response);
  }

  // What the epoch has to have; nullopt: as many as are drawn, whichever.
  static std::optional<Ids> Expected(const Asked& asked) {
    const v1::EpochSpec& spec = asked.spec;
    Ids ids;
    if (spec.join_parts()) {
      for (uint64_t i = 0; i < World().num_parts(); ++i) ids.insert(i);
      return ids;
    }
    if (spec.has_draw()) return std::nullopt;
    for (const Stored& graph : SelectedOf(spec)) {
      if (Fits(spec, graph)) ids.insert(graph.id);
    }
    return ids;
  }
  static bool Fits(const v1::EpochSpec& spec, const Stored& graph) {
    if (spec.has_samples()) return true;
    const v1::RankGroup& group = spec.rank_groups(0);
    // Padding graphs have least rows, too, which leaves no room for the large graph.
    if (spec.min_rows_size() != 0) return graph.nodes >= kLeastNodes && graph.id != kLargeId;
    const bool has_larger = spec.rank_groups_size() > 1 || group.shapes_size() > 1 ||
                            group.device_profile().max_distinct_shapes() > 1 ||
                            spec.oversize_policy() == v1::OVERSIZE_POLICY_PARTITION;
    if (has_larger) return true;
    if (spec.grouped()) return PairsWorld::GroupOf(graph.id) != PairsWorld::GroupOf(kLargeId);
    return graph.id != kLargeId;
  }
  static bool LeavesOut(const v1::EpochSpec& spec) {
    return !spec.has_samples() && !spec.join_parts();
  }
  // Whether it is asked for that the large graph be an error, and it takes part.
  static bool Fails(const v1::EpochSpec& spec) {
    return spec.oversize_policy() == v1::OVERSIZE_POLICY_ERROR && LeavesOut(spec) &&
           absl::c_any_of(SelectedOf(spec), [&](const Stored& graph) {
             return graph.id == kLargeId && !Fits(spec, graph);
           });
  }

  void ExpectAll(const Asked& asked, const Delivered& delivered) {
    EXPECT_THAT(delivered.status, IsOk());
    EXPECT_FALSE(delivered.came_twice);
    Ids ids = delivered.ids();
    EXPECT_EQ(ids.size(), delivered.num_graphs);
    if (asked.spec.oversize_policy() == v1::OVERSIZE_POLICY_PARTITION) {
      EXPECT_EQ(ids.count(kLargeId), delivered.num_pieces);
      EXPECT_GT(delivered.num_pieces, 1U);
      ids.erase(kLargeId);
      ids.insert(kLargeId);
    }
    if (const auto expected = Expected(asked)) {
      EXPECT_EQ(ids, *expected);
      EXPECT_EQ(delivered.num_rejected,
                LeavesOut(asked.spec) ? SelectedOf(asked.spec).size() - expected->size() : 0);
      return;
    }
    const v1::Draw& draw = asked.spec.draw();
    EXPECT_EQ(ids.size(), draw.num_graphs());
    Ids may_come;
    for (const Stored& graph : SelectedOf(asked.spec)) {
      if (Fits(asked.spec, graph)) may_come.insert(graph.id);
    }
    for (const uint64_t id : ids) {
      const size_t most = draw.with_replacement() ? ids.size() : 1;
      EXPECT_LE(ids.count(id), most * may_come.count(id)) << id;
    }
  }

  void ExpectRefused(const Asked& asked, const absl::Status& why) {
    const auto refused = [&](const absl::Status& status) {
      EXPECT_EQ(status.code(), why.code()) << status;
      if (absl::IsInvalidArgument(why)) {
        EXPECT_EQ(status.message(), why.message());
      } else {
        EXPECT_THAT(status.message(), HasSubstr(why.message()));
      }
    };
    if (asked.use == Use::kExport) return refused(Export(asked, 0, 0).status);
    refused(GetEpoch(asked).status());
    refused(LoadAll(asked, "a", kNumRanks).status);
  }

  void ExpectDelivered(const Asked& asked) {
    if (asked.use == Use::kExport) return ExpectExported(asked);
    const auto described = GetEpoch(asked);
    ASSERT_THAT(described.status(), IsOk());
    Asked other = asked;
    if (asked.use != Use::kEvaluation) other.spec.set_job(absl::StrCat(asked.spec.job(), "-other"));
    const Delivered once = LoadAll(other, "a", kNumRanks);
    ExpectAll(asked, once);
    EXPECT_EQ(described->num_graphs(), once.num_graphs);
    DeleteJob(other.spec.job());
    Delivered again;
    if (asked.use == Use::kEvaluation) {
      // A client that lost its stream asks for what it has not read.
      for (uint32_t rank = 0; rank < kNumRanks; ++rank) {
        v1::LoadRequest request = RequestOf(asked, "", rank, kNumRanks);
        Load(request, again, 1);
        request.mutable_evaluation()->set_first_step(1);
        Load(request, again);
      }
    } else {
      // A worker dies with a batch; all start again, in other numbers if they may.
      Load(RequestOf(asked, "a", 0, kNumRanks), again, 2);
      const bool is_bound = asked.spec.rank_groups_size() > 1 || asked.use == Use::kDynamic;
      const uint32_t num_workers = is_bound ? kNumRanks : kNumRanks + 1;
      for (uint32_t worker = 0; worker < num_workers; ++worker) {
        Load(RequestOf(asked, "b", worker, num_workers), again);
      }
    }
    ExpectAll(asked, again);
    EXPECT_EQ(again.bytes(), once.bytes());
    DeleteJob(asked.spec.job());
  }

  void ExpectExported(const Asked& asked) {
    const Exported all = Export(asked, 0, 0);
    ASSERT_THAT(all.status, IsOk());
    EXPECT_EQ(all.num_graphs, all.ids.size());
    EXPECT_EQ(all.examples.size(), all.ids.size());
    Delivered loaded;
    const uint32_t ranks = asked.spec.rank_groups_size() > 1 ? kNumRanks : 1;
    Asked evaluated = asked;
    evaluated.use = Use::kEvaluation;
    loaded = LoadAll(evaluated, "", ranks);
    ExpectAll(evaluated, loaded);
    EXPECT_EQ(Ids(all.ids.begin(), all.ids.end()), loaded.ids());
    if (ranks == 1) {
      std::vector<uint64_t> in_order;
      for (const uint64_t number : loaded.order) {
        for (const uint64_t id : Uint64sFromWire(loaded.batches[number].batch().graph_ids())) {
          in_order.push_back(id);
        }
      }
      EXPECT_EQ(all.ids, in_order);
    }
    const uint64_t first = all.ids.size() / 3;
    const Exported rest = Export(asked, first, 0);
    EXPECT_THAT(rest.status, IsOk());
    EXPECT_EQ(rest.ids, std::vector<uint64_t>(all.ids.begin() + first, all.ids.end()));
    EXPECT_EQ(rest.examples,
              std::vector<std::string>(all.examples.begin() + first, all.examples.end()));
    const Exported some = Export(asked, first, 5);
    EXPECT_EQ(some.ids,
              std::vector<uint64_t>(all.ids.begin() + first, all.ids.begin() + first + 5));
    EXPECT_THAT(Export(asked, all.ids.size(), 0).ids, IsEmpty());
    EXPECT_THAT(Export(asked, all.ids.size() + 1, 0).status,
                StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("first_graph")));
  }

  SimulatedClock clock_;
  CountingObserver observer_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::unique_ptr<JobLogs> ledger_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::LoaderService::Stub> stub_;
};

TEST_P(OptionPairsTest, AreDeliveredOrRefused) {
  const std::vector<EpochRule> rules = AllRules();
  const Choice& a = Choices()[GetParam()];
  for (size_t j = GetParam(); j < Choices().size(); ++j) {
    const Choice& b = Choices()[j];
    if (!GoTogether(a, b)) continue;
    SCOPED_TRACE(absl::StrCat(a.name, " and ", b.name));
    const Asked asked = AskedOf(a, b, absl::StrCat("job-", GetParam(), "-", j));
    if (const EpochRule* const rule = RuleAgainst(rules, a, b)) {
      ExpectRefused(asked, absl::InvalidArgumentError(rule->refusal));
    } else if (Fails(asked.spec)) {
      ExpectRefused(asked, absl::OutOfRangeError(asked.spec.grouped()
                                                     ? absl::StrCat(PairsWorld::GroupOf(kLargeId))
                                                 : asked.spec.min_rows_size() != 0
                                                     ? "graph 1"
                                                     : absl::StrCat("graph ", kLargeId)));
    } else {
      ExpectDelivered(asked);
      // Evaluations and exports go through segments and windows, too, whatever these are of.
      const bool in_segments = asked.spec.has_segments() || asked.spec.has_samples();
      for (const Choice& use : Choices()) {
        if (!in_segments || !use.slots.contains("use") || !GoTogether(a, use) ||
            !GoTogether(b, use) || RuleAgainst(rules, a, b, use) != nullptr) {
          continue;
        }
        SCOPED_TRACE(use.name);
        Asked other = asked;
        use.set(other);
        ExpectDelivered(other);
      }
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<size_t>& info) {
  std::string name = Choices()[info.param].name;
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, OptionPairsTest, ::testing::Range<size_t>(0, Choices().size()),
                         NameOf);

// --- The table, the options and the page have the same.

TEST(OptionTableTest, EveryRowIsMetByAPair) {
  const std::vector<EpochRule> rules = AllRules();
  std::set<absl::string_view> met;
  for (const Choice& a : Choices()) {
    for (const Choice& b : Choices()) {
      if (!GoTogether(a, b)) continue;
      if (const EpochRule* const rule = RuleAgainst(rules, a, b)) {
        met.insert(rule->refusal);
      }
    }
  }
  std::vector<std::string> unmet;
  for (const EpochRule& rule : rules) {
    if (!met.contains(rule.refusal)) unmet.emplace_back(rule.refusal);
  }
  EXPECT_THAT(unmet, IsEmpty());
}

// All that a message has, field by field and value by value.
void Collect(const google::protobuf::Message& message, std::set<std::string>& seen) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const auto* const field : fields) {
    seen.insert(field->full_name());
    const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_ENUM) {
        seen.insert(field->is_repeated()
                        ? reflection.GetRepeatedEnum(message, field, i)->full_name()
                        : reflection.GetEnum(message, field)->full_name());
      } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
        Collect(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                     : reflection.GetMessage(message, field),
                seen);
      }
    }
  }
}

// A new option has a choice here, or this fails.
TEST(OptionTableTest, EveryFieldOfAnEpochIsChosen) {
  std::set<std::string> seen;
  for (const Choice& a : Choices()) Collect(AskedOf(a, a, "job").spec, seen);
  std::vector<std::string> unchosen;
  for (const google::protobuf::Descriptor* const message :
       {v1::EpochSpec::descriptor(), v1::RankGroup::descriptor(), v1::Subset::descriptor(),
        v1::Draw::descriptor(), v1::Mixing::descriptor(), v1::BatchOrder::descriptor(),
        v1::CostBalanced::descriptor(), v1::ByScore::descriptor(), v1::Segments::descriptor(),
        v1::SampleSpec::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      const google::protobuf::FieldDescriptor& field = *message->field(i);
      if (!seen.contains(field.full_name())) unchosen.push_back(field.full_name());
      if (field.cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_ENUM) continue;
      for (int v = 0; v < field.enum_type()->value_count(); ++v) {
        const google::protobuf::EnumValueDescriptor& value = *field.enum_type()->value(v);
        if (value.number() != 0 && !seen.contains(value.full_name())) {
          unchosen.push_back(value.full_name());
        }
      }
    }
  }
  EXPECT_THAT(unchosen, IsEmpty());
}

// docs/epoch-options.md, between its marks.
TEST(OptionTableTest, ThePageHasTheRows) {
  std::string table = "| option | refused with |\n|---|---|\n";
  std::vector<absl::string_view> names;
  std::map<absl::string_view, std::vector<std::string>> others;
  for (const EpochRule& rule : AllRules()) {
    for (const auto& [one, other] :
         {std::pair(rule.option, rule.other), std::pair(rule.other, rule.option)}) {
      if (!absl::c_linear_search(names, one->name)) names.push_back(one->name);
      others[one->name].emplace_back(other->name);
    }
  }
  absl::c_sort(names);
  for (const absl::string_view name : names) {
    std::vector<std::string>& of_name = others[name];
    absl::c_sort(of_name);
    absl::StrAppend(&table, "| ", name, " | ", absl::StrJoin(of_name, ", "), " |\n");
  }
  std::ifstream file(PACKHOUSE_OPTIONS_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(absl::StrCat("\n\n", table, "\n")))
      << "docs/epoch-options.md needs this table:\n"
      << table;
}

}  // namespace
}  // namespace packhouse::rpc
