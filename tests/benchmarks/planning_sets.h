// The sets on which the planner is measured: real size distributions and made ones, each with
// limits, and with the packs that the planner has to reach.
#ifndef PACKHOUSE_TESTS_BENCHMARKS_PLANNING_SETS_H_
#define PACKHOUSE_TESTS_BENCHMARKS_PLANNING_SETS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/sizes/size_schema.h"
#include "tests/support/random.h"
#include "tests/support/sizes_csv.h"

namespace packhouse {

// What a plan has to be, in packs, never in time. Unset: nothing asked.
struct PlanningTarget {
  std::optional<uint64_t> most_packs;
  // Above the bound; 0: proved optimal.
  std::optional<uint64_t> most_percent;
};

// What prototypes of the planner reached, on one core of a shared AVX-512 machine.
struct ReferencePlan {
  uint64_t packs;
  const char* milliseconds;
};

struct PlanningSet {
  std::string name;
  SizeSchema schema;
  // Nothing if the data is not at hand.
  std::function<std::optional<SizeHistogram>()> read;
  Limits limits;
  PlanningTarget target = {};
  std::optional<ReferencePlan> reference = std::nullopt;
  // A graph more of a made set; of real ones, new graphs are drawn from the old.
  std::function<SizeTuple(Random&)> draw = nullptr;
  // In which further tables it appears.
  bool on_each_level = false;
  bool replanned = false;
};

// Values from `low` to low * 2^(doublings + 1) - 1; one in three is in the next doubling, so that
// the tail falls as x^-1.6: a finite mean that large values dominate.
inline uint64_t HeavyTailed(Random& random, uint64_t low, int doublings) {
  for (int i = 0; i < doublings && random.Below(3) == 0; ++i) low *= 2;
  return random.Between(low, 2 * low - 1);
}

inline SizeTuple TupleOf(std::initializer_list<uint64_t> counts) {
  SizeTuple tuple;
  for (const uint64_t count : counts) tuple.push_back(static_cast<uint32_t>(count));
  return tuple;
}

// (nodes, edges): about 27 nodes, two edges a bond.
inline SizeTuple DrawMolecule(Random& random) {
  uint64_t nodes = 4 + random.Below(16) + random.Below(16) + random.Below(16);
  if (random.Below(64) == 0) nodes += random.Below(160);
  return TupleOf({nodes, 2 * (nodes - 1 + random.Below(5))});
}

// (nodes, edges, tokens): a molecule and a text about it, of heavy-tailed length, that grows a
// little with the molecule; a tenth has none.
inline SizeTuple DrawDescribedMolecule(Random& random) {
  SizeTuple tuple = DrawMolecule(random);
  const uint64_t tokens = HeavyTailed(random, 16, 4) + tuple[0] / 2;
  tuple.push_back(static_cast<uint32_t>(random.Below(10) == 0 ? 0 : tokens));
  return tuple;
}

// (instructions, variables, constants, control, data, call): the graph of one compiled function, as
// ProGraML draws it (Cummins et al. 2021). All follow the number of instructions, which has a heavy
// tail; most functions call nothing, many have no constants.
inline SizeTuple DrawProgram(Random& random) {
  const uint64_t instructions = HeavyTailed(random, 12, 6);
  const uint64_t variables = instructions * random.Between(50, 90) / 100;
  const uint64_t constants = random.Below(3) == 0 ? 0 : instructions * random.Between(2, 30) / 100;
  const uint64_t control = instructions - 1 + instructions * random.Below(26) / 100;
  const uint64_t data = 2 * variables + random.Below(variables + 1) / 2 + constants;
  const uint64_t call = random.Below(5) < 3 ? 0 : 2 * random.Between(1, 1 + instructions / 12);
  return TupleOf({instructions, variables, constants, control, data, call});
}

// (papers, authors, institutions, cites, writes, affiliated): the neighbourhood of a paper, sampled
// with a bound on neighbours, so that the tail ends in a heap; institutions are unknown in a
// quarter of the graphs, few authors write much together.
inline SizeTuple DrawNeighbourhood(Random& random) {
  const uint64_t papers = std::min<uint64_t>(HeavyTailed(random, 2, 6), 96);
  uint64_t writes = 0;
  for (uint64_t i = 0; i < papers; ++i) writes += 1 + random.Below(3) + random.Below(4);
  const uint64_t authors = std::max<uint64_t>(1, writes * random.Between(60, 100) / 100);
  const uint64_t cites = papers - 1 + papers * random.Below(120) / 100;
  if (random.Below(4) == 0) return TupleOf({papers, authors, 0, cites, writes, 0});
  const uint64_t affiliated = std::max<uint64_t>(1, authors * random.Between(30, 110) / 100);
  const uint64_t institutions = std::max<uint64_t>(1, affiliated * random.Between(20, 90) / 100);
  return TupleOf({papers, authors, institutions, cites, writes, affiliated});
}

// (objects, people, texts, object_object, person_object, text_object): what is seen in a picture.
// Only weakly correlated; half of the pictures show nobody, two thirds no writing.
inline SizeTuple DrawScene(Random& random) {
  const uint64_t objects = HeavyTailed(random, 4, 4);
  const uint64_t people = random.Below(2) == 0 ? 0 : HeavyTailed(random, 1, 4);
  const uint64_t texts = random.Below(3) != 0 ? 0 : HeavyTailed(random, 2, 5);
  const uint64_t object_object = random.Below(2 * objects + 1);
  const uint64_t person_object = people * (1 + random.Below(std::min<uint64_t>(objects, 6)));
  const uint64_t text_object = random.Below(texts + 1);
  return TupleOf({objects, people, texts, object_object, person_object, text_object});
}

// Six counts that have nothing to do with each other: no data is like that. With limits that all
// bind alike it is as hard as it gets, for the bound as well as for the plan.
inline SizeTuple DrawIndependent(Random& random) {
  SizeTuple tuple;
  for (int k = 0; k < 6; ++k) tuple.push_back(static_cast<uint32_t>(random.Between(1, 100)));
  return tuple;
}

// (nodes, edges): the ego network of a person in a collaboration graph. Edges, both ways, grow like
// the square of the nodes, with a density of their own in each. Six in a hundred are near-cliques:
// the authors of one large paper. Half of the packs have to take sparse graphs beside one of these.
inline SizeTuple DrawEgoNetwork(Random& random) {
  if (random.Below(100) < 6) {
    const uint64_t nodes = random.Between(240, 490);
    return TupleOf({nodes, std::min(nodes * (nodes - 1), random.Between(57'000, 80'000))});
  }
  const uint64_t nodes = 30 + std::min(random.Below(171), random.Below(171));
  // Of a thousand pairs.
  const uint64_t density = 20 + random.Below(40) * random.Below(16);
  return TupleOf({nodes, std::clamp<uint64_t>(nodes * (nodes - 1) * density / 1000, 100, 10'000)});
}

inline SizeHistogram MakeHistogram(size_t num_components, uint64_t num_graphs,
                                   const std::function<SizeTuple(Random&)>& draw, uint64_t seed) {
  Random random(seed);
  SizeHistogram histogram(num_components);
  for (uint64_t i = 0; i < num_graphs; ++i) histogram.Add(draw(random)).IgnoreError();
  return histogram;
}

// Capacities are of nodes and edges; `graphs` beside.
inline PlanningSet RealSet(const std::string& name, uint64_t nodes, uint64_t edges,
                           uint64_t graphs = 256) {
  PlanningSet set = {.name = name,
                     .schema = SizeSchema::NodesAndEdges(),
                     .read = [name] { return ReadHistogram(name); },
                     .limits = Limits::Create({nodes, edges, graphs}).value()};
  return set;
}

inline PlanningSet MadeSet(const std::string& name, std::vector<std::string> components,
                           uint64_t num_graphs, std::vector<uint64_t> capacities,
                           const std::function<SizeTuple(Random&)>& draw, uint64_t seed = 20220) {
  const size_t l = components.size();
  PlanningSet set = {.name = name,
                     .schema = SizeSchema::Create(std::move(components)).value(),
                     .read = [=] { return MakeHistogram(l, num_graphs, draw, seed); },
                     .limits = Limits::Create(std::move(capacities)).value(),
                     .draw = draw};
  return set;
}

inline std::vector<PlanningSet> PlanningSets() {
  std::vector<PlanningSet> sets;
  const auto add = [&](PlanningSet set, PlanningTarget target,
                       std::optional<ReferencePlan> reference) -> PlanningSet& {
    set.target = target;
    set.reference = reference;
    return sets.emplace_back(std::move(set));
  };
  const auto optimal = [](uint64_t packs) { return PlanningTarget{packs, 0}; };
  const auto within = [](uint64_t percent) { return PlanningTarget{std::nullopt, percent}; };
  const PlanningTarget none;

  add(RealSet("molhiv_train", 222, 502), optimal(3744), {{3744, "2.1"}}).on_each_level = true;
  add(RealSet("molhiv_train", 512, 1097), optimal(1624), {{1624, "2.1"}});
  add(RealSet("molhiv_train", 4096, 9216), optimal(203), {{203, "1.9"}});
  add(RealSet("molpcba_train", 313, 636), optimal(30529), {{30529, "2.1"}});
  add(RealSet("molpcba_train", 512, 1105), optimal(17588), {{17588, "1.9"}}).replanned = true;
  add(RealSet("pcqm4mv2_train_heatmap", 20, 54), optimal(3126625), {{3126625, "0.02"}});
  add(RealSet("pcqm4mv2_train_heatmap", 30, 62), optimal(1599732), {{1599732, "3"}});
  {
    PlanningSet& set =
        add(RealSet("pcqm4mv2_trainvalid_heatmap", 51, 118), optimal(969671), {{969671, "13"}});
    set.on_each_level = true;
    set.replanned = true;
  }
  {
    PlanningSet& set = add(RealSet("qm9_h", 58, 120), optimal(41566), {{41566, "11"}});
    set.on_each_level = true;
    set.replanned = true;
  }
  add(RealSet("pyast_functions", 189054, 189053), optimal(1516), {{1516, "13"}}).on_each_level =
      true;
  add(RealSet("pyast_functions", 189054, 189053, kUnlimited), optimal(195), {{195, "0.12"}});
  {
    PlanningSet& set =
        add(RealSet("ppa_standin_ego", 300, 23804), {66603, std::nullopt}, {{66603, "130"}});
    set.on_each_level = true;
    set.replanned = true;
  }
  add(RealSet("ppa_standin_ego", 1200, 36138), none, std::nullopt).replanned = true;
  add(RealSet("tu_PROTEINS", 620, 2098), none, std::nullopt);
  add(RealSet("tu_NCI1", 111, 238), optimal(1117), std::nullopt);

  add(MadeSet("made_molecules", {"nodes", "edges"}, 5'000, {208, 430, 256}, DrawMolecule),
      optimal(671), std::nullopt);
  add(MadeSet("made_described_molecules", {"nodes", "edges", "tokens"}, 50'000,
              {512, 1104, 1024, 256}, DrawDescribedMolecule),
      within(1), std::nullopt)
      .replanned = true;
  const std::vector<std::string> program = {"instructions", "variables", "constants",
                                            "control",      "data",      "call"};
  {
    PlanningSet& set = add(MadeSet("made_programs", program, 60'000,
                                   {2048, 1536, 512, 2560, 4096, 256, 256}, DrawProgram),
                           within(1), std::nullopt);
    set.on_each_level = true;
    set.replanned = true;
  }
  const std::vector<std::string> neighbourhood = {"papers", "authors", "institutions",
                                                  "cites",  "writes",  "affiliated"};
  add(MadeSet("made_neighbourhoods", neighbourhood, 60'000, {256, 768, 384, 384, 896, 512, 128},
              DrawNeighbourhood),
      within(1), std::nullopt)
      .replanned = true;
  const std::vector<std::string> scene = {"objects",       "people",        "texts",
                                          "object_object", "person_object", "text_object"};
  add(MadeSet("made_scenes", scene, 60'000, {256, 32, 128, 256, 192, 128, 64}, DrawScene),
      within(1), std::nullopt)
      .replanned = true;
  add(MadeSet("made_independent", {"a", "b", "c", "d", "e", "f"}, 20'000,
              {606, 606, 606, 606, 606, 606, 256}, DrawIndependent),
      within(1), std::nullopt);
  add(MadeSet("made_egos", {"nodes", "edges"}, 5'000, {1225, 80'000, kUnlimited}, DrawEgoNetwork),
      within(2), std::nullopt)
      .replanned = true;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    add(MadeSet("made_egos_" + std::to_string(seed), {"nodes", "edges"}, 5'000,
                {1225, 80'000, kUnlimited}, DrawEgoNetwork, seed),
        within(2), std::nullopt);
  }
  return sets;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_BENCHMARKS_PLANNING_SETS_H_
