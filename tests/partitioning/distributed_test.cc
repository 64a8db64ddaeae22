// Graphs that lie on several ranks, held against the same graphs in one place.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/part_cutter.h"
#include "service/wings/partition_mpi/shares/part_gatherer.h"
#include "service/wings/partition_mpi/shares/share_assignment.h"
#include "service/wings/partition_mpi/shares/share_refiner.h"
#include "tests/partitioning/assignment_fingerprint.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/partitioning/thread_ranks.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAreArray;

SharedTypes TypesOf(const HomogeneousGraph& graph) {
  SharedTypes types;
  for (const HomogeneousNodeType& type : graph.node_types()) {
    types.node_types.push_back({type.name, type.start, type.size});
  }
  for (const HomogeneousEdgeType& type : graph.edge_types()) {
    types.edge_types.push_back({type.name, type.source, type.target, type.start, type.size});
  }
  types.num_nodes = graph.num_nodes();
  types.num_edges = graph.num_edges();
  return types;
}

// Every edge is read by the rank that its number says, a few at a time, from the last to the first.
class StridedReader : public EdgeReader {
 public:
  StridedReader(const HomogeneousGraph& graph, const Ranks& ranks) {
    for (const HomogeneousEdgeType& type : graph.edge_types()) {
      for (uint32_t row = 0; row < type.by_target.num_rows(); ++row) {
        for (uint64_t at = type.by_target.offsets[row]; at < type.by_target.offsets[row + 1];
             ++at) {
          const uint64_t edge = type.start + type.by_target.edge(at);
          if (edge % ranks.size() != ranks.rank()) continue;
          edges_.push_back({graph.node_types()[type.target].start + row,
                            graph.node_types()[type.source].start + type.by_target.neighbours[at],
                            edge});
        }
      }
    }
    std::reverse(edges_.begin(), edges_.end());
  }
  void Rewind() override { next_ = 0; }
  absl::StatusOr<bool> Next(std::vector<SharedEdge>& edges) override {
    edges.clear();
    while (next_ < edges_.size() && edges.size() < 7) edges.push_back(edges_[next_++]);
    return !edges.empty();
  }

 private:
  std::vector<SharedEdge> edges_;
  size_t next_ = 0;
};

GraphShare ShareOf(Ranks& ranks, const HomogeneousGraph& graph, const SharedTypes& types) {
  StridedReader reader(graph, ranks);
  return *GraphShare::Create(ranks, &types, reader);
}

std::vector<uint32_t> RandomNumbers(uint64_t count, uint32_t below, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<uint32_t> numbers(count);
  for (uint32_t& number : numbers) number = static_cast<uint32_t>(random.Below(below));
  return numbers;
}

std::vector<uint32_t> OwnOf(const GraphShare& share, const std::vector<uint32_t>& all) {
  return {all.begin() + static_cast<ptrdiff_t>(share.first_node()),
          all.begin() + static_cast<ptrdiff_t>(share.first_node() + share.num_own())};
}

// Gives each node a part by its number alone.
class ScatteringEngine : public ShareEngine {
 public:
  ScatteringEngine(uint64_t first_node) : first_node_(first_node) {}
  absl::StatusOr<std::vector<uint32_t>> Assign(SymmetricShare& graph, std::vector<int64_t>& weights,
                                               uint32_t num_parts, double, uint64_t) override {
    EXPECT_EQ(weights.size(), graph.num_own());
    asked = weights;
    std::vector<uint32_t> part(graph.num_own());
    for (uint64_t own = 0; own < part.size(); ++own) {
      // The last parts get few nodes, so that there is something to mend.
      const uint64_t draw = SeededRandom(first_node_ + own).Below(num_parts * uint64_t{num_parts});
      part[own] = static_cast<uint32_t>(draw / num_parts * (draw % num_parts) / num_parts);
    }
    return part;
  }

  std::vector<int64_t> asked;

 private:
  const uint64_t first_node_;
};

TEST(BlocksTest, RunsTileAllIdsAndOwnersAreTheirInverse) {
  for (const uint64_t total : {0, 1, 5, 6, 7, 100}) {
    for (const uint32_t ranks : {1, 2, 3, 7, 9}) {
      const Blocks blocks(total, ranks);
      EXPECT_EQ(blocks.begin(0), 0);
      EXPECT_EQ(blocks.end(ranks - 1), total);
      for (uint32_t r = 0; r < ranks; ++r) {
        EXPECT_EQ(blocks.end(r) - blocks.begin(r), blocks.size(r));
        for (uint64_t id = blocks.begin(r); id < blocks.end(r); ++id)
          EXPECT_EQ(blocks.owner(id), r);
      }
    }
  }
}

TEST(RanksTest, TheLowestErrorIsEverybodys) {
  RunOnRanks(3, [](Ranks& ranks) {
    EXPECT_THAT(Agree(ranks, absl::OkStatus()), IsOk());
    const absl::Status own =
        ranks.rank() == 0
            ? absl::OkStatus()
            : absl::NotFoundError(absl::StrCat("file ", ranks.rank(), " is not there"));
    EXPECT_EQ(Agree(ranks, own), absl::NotFoundError("rank 1: file 1 is not there"));
  });
}

// A round ends at a mebibyte for one rank, and at 32 for all of them; the next one begins empty.
TEST(MessagesToRanksTest, ARoundEndsAtItsBounds) {
  struct Half {
    char bytes[size_t{1} << 19];
  };
  MessagesToRanks<Half> to_ranks(64);
  const auto half = std::make_unique<Half>();
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(to_ranks.full());
    to_ranks.Add(3, *half);
    EXPECT_FALSE(to_ranks.full());
    to_ranks.Add(3, *half);
    EXPECT_TRUE(to_ranks.full());
    EXPECT_EQ(to_ranks.to()[3].size(), 2);
    to_ranks.Clear();
    EXPECT_TRUE(to_ranks.to()[3].empty());
  }
  for (uint32_t rank = 0; rank < 64; ++rank) {
    EXPECT_FALSE(to_ranks.full());
    to_ranks.Add(rank, *half);
  }
  EXPECT_TRUE(to_ranks.full());
}

// Items that need many rounds arrive in their order, each once, with the number of who sent them.
TEST(RanksTest, ManyRoundsGiveAllItemsInOrder) {
  struct Item {
    uint64_t number;
    char rest[size_t{1} << 17];
  };
  RunOnRanks(2, [](Ranks& ranks) {
    // Rank 1 has more to say than rank 0.
    const uint64_t count = 10 + 15 * ranks.rank();
    uint64_t next = 0;
    std::vector<std::vector<uint64_t>> taken(2);
    const auto item = std::make_unique<Item>();
    ExchangeInRounds<Item>(
        ranks,
        [&](MessagesToRanks<Item>& outbox) {
          for (; next < count; ++next) {
            if (outbox.full()) return true;
            item->number = next;
            outbox.Add(1, *item);
          }
          return false;
        },
        [&](uint32_t from, absl::Span<const Item> items) {
          for (const Item& one : items) taken[from].push_back(one.number);
        });
    for (uint32_t from = 0; from < 2; ++from) {
      std::vector<uint64_t> want(ranks.rank() == 1 ? 10 + 15 * from : 0);
      std::iota(want.begin(), want.end(), 0);
      EXPECT_EQ(taken[from], want);
    }
  });
}

// What is more than a round takes comes in several: edges of a share, of a part, of its halo, and
// of the undirected graph. All edges go from even nodes to odd ones.
TEST(PartGathererTest, GathersWhatNeedsSeveralRounds) {
  SeededRandom random(1);
  Pairs edges;
  for (int i = 0; i < 90'000; ++i) {
    edges.emplace_back(2 * random.Below(500), 2 * random.Below(500) + 1);
  }
  const auto source = OneSetGraph(1000, edges);
  const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
  const SharedTypes types = TypesOf(graph);
  std::vector<uint32_t> part(1000);
  for (uint32_t node = 0; node < 1000; ++node) part[node] = node % 2;
  const NewIds ids = *NewIds::Create(&graph, part, 2);
  PartCutter cutter(&ids, 2, HaloKind::kPartitionGraph);
  RunOnRanks(1, [&](Ranks& ranks) {
    GraphShare share = ShareOf(ranks, graph, types);
    const SymmetricShare symmetric = Symmetrize(ranks, share);
    uint64_t weight = 0;
    for (size_t entry = 0; entry < symmetric.neighbours.size(); ++entry) {
      weight += symmetric.weight(entry);
    }
    EXPECT_EQ(weight, 180'000);
    const SharedIds shared(ranks, &share, part, 2);
    PartGatherer gatherer(&ranks, &shared, part, {}, 2, HaloKind::kPartitionGraph);
    for (const uint32_t number : {0, 1}) {
      const Part want = *cutter.Cut(number);
      const std::optional<GatheredPart> got = gatherer.Gather(number);
      ASSERT_TRUE(got.has_value());
      EXPECT_TRUE(got->trainers.empty());
      EXPECT_EQ(got->edges, want.edges);
      EXPECT_EQ(got->original_edges, want.original_edges);
      EXPECT_THAT(got->sources, ElementsAreArray(want.sources));
      EXPECT_THAT(got->targets, ElementsAreArray(want.targets));
    }
  });
}

// A rank whose reader fails says so to all; so do files that change between the two times they are
// read.
TEST(GraphShareTest, ErrorsOfReadersAreEverybodys) {
  SharedTypes types;
  types.node_types = {{"n", 0, 6}};
  types.edge_types = {{"n:e:n", 0, 0, 0, 3}};
  types.num_nodes = 6;
  types.num_edges = 3;
  class FailingReader final : public EdgeReader {
   public:
    FailingReader(int fails_at, bool shrinks) : fails_at_(fails_at), shrinks_(shrinks) {}
    void Rewind() override { left_ = times_++ == 1 && shrinks_ ? 2 : 3; }
    absl::StatusOr<bool> Next(std::vector<SharedEdge>& edges) override {
      if (calls_++ == fails_at_) return absl::DataLossError("torn");
      edges.clear();
      if (left_ == 0) return false;
      --left_;
      edges.push_back({left_, left_ + 1, left_});
      return true;
    }

   private:
    const int fails_at_;
    const bool shrinks_;
    int calls_ = 0;
    int times_ = 0;
    uint64_t left_ = 0;
  };
  for (int fails_at = -1; fails_at < 9; ++fails_at) {
    SCOPED_TRACE(fails_at);
    RunOnRanks(2, [&](Ranks& ranks) {
      FailingReader reader(ranks.rank() == 1 ? fails_at : -1, false);
      const absl::Status made = GraphShare::Create(ranks, &types, reader).status();
      EXPECT_EQ(made, fails_at < 0 || fails_at == 8 ? absl::OkStatus()
                                                    : absl::DataLossError("rank 1: torn"));
    });
  }
  RunOnRanks(2, [&](Ranks& ranks) {
    FailingReader reader(-1, ranks.rank() == 1);
    EXPECT_EQ(GraphShare::Create(ranks, &types, reader).status(),
              absl::AbortedError("rank 0: the files of edges have changed while they were read"));
  });
}

// Conservation: whoever reads what, and however many ranks there are, each part is the one that is
// cut out of the whole graph.
TEST(PartGathererTest, GathersWhatIsCutOutOfTheWholeGraph) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    const std::unique_ptr<const SourceGraph> source = RandomSourceGraph(seed);
    const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
    const SharedTypes types = TypesOf(graph);
    const uint32_t num_parts = 1 + seed % 5;
    const uint32_t num_ranks = 1 + seed % 4;
    const HaloKind halo = seed % 7 == 0 ? HaloKind::kInEdges : HaloKind::kPartitionGraph;
    const uint32_t hops = halo == HaloKind::kInEdges ? 1 : 1 + seed % 3;
    const std::vector<uint32_t> part = RandomNumbers(graph.num_nodes(), num_parts, seed);
    const NewIds ids = *NewIds::Create(&graph, part, num_parts);
    PartCutter cutter(&ids, hops, halo);
    std::vector<Part> expected;
    for (uint32_t p = 0; p < num_parts; ++p) expected.push_back(*cutter.Cut(p));

    std::mutex mutex;
    uint32_t gathered = 0;
    RunOnRanks(num_ranks, [&](Ranks& ranks) {
      GraphShare share = ShareOf(ranks, graph, types);
      const std::vector<uint32_t> own = OwnOf(share, part);
      const SharedIds shared(ranks, &share, own, num_parts);
      PartGatherer gatherer(&ranks, &shared, own, own, hops, halo);
      for (uint32_t first = 0; first < num_parts; first += ranks.size()) {
        const uint32_t number = first + ranks.rank();
        const std::optional<GatheredPart> got =
            gatherer.Gather(number < num_parts ? std::optional(number) : std::nullopt);
        const std::lock_guard<std::mutex> lock(mutex);
        EXPECT_EQ(shared.node_map(), ids.node_map());
        EXPECT_EQ(shared.edge_map(), ids.edge_map());
        ASSERT_EQ(got.has_value(), number < num_parts);
        if (!got) continue;
        ++gathered;
        const Part& want = expected[number];
        EXPECT_EQ(got->number, number);
        EXPECT_EQ(got->num_inner_nodes, want.num_inner_nodes);
        EXPECT_EQ(got->num_inner_edges, want.num_inner_edges);
        EXPECT_THAT(got->nodes, ElementsAreArray(want.nodes));
        EXPECT_THAT(got->original_nodes, ElementsAreArray(want.original_nodes));
        EXPECT_THAT(got->edges, ElementsAreArray(want.edges));
        EXPECT_THAT(got->original_edges, ElementsAreArray(want.original_edges));
        EXPECT_THAT(got->sources, ElementsAreArray(want.sources));
        EXPECT_THAT(got->targets, ElementsAreArray(want.targets));
        EXPECT_EQ(got->trainers, std::vector<uint32_t>(want.num_inner_nodes, number));
      }
    });
    EXPECT_EQ(gathered, num_parts);
  }
}

// However many ranks there are: what an engine takes for granted, and how many edges join two
// nodes.
TEST(SymmetricShareTest, NeighboursAreInOrderAndThereOnce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    const std::unique_ptr<const SourceGraph> source = RandomSourceGraph(seed);
    const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
    const SharedTypes types = TypesOf(graph);
    using Pairs = std::map<std::pair<int64_t, int64_t>, uint64_t>;
    Pairs want;
    RunOnRanks(1, [&](Ranks& ranks) {
      const GraphShare whole = ShareOf(ranks, graph, types);
      whole.ForEachEdge([&](uint64_t target, uint64_t at) {
        const auto one = static_cast<int64_t>(whole.sources()[at]);
        const auto other = static_cast<int64_t>(target);
        if (one == other) return;
        ++want[{one, other}];
        ++want[{other, one}];
      });
    });
    std::mutex mutex;
    Pairs got;
    RunOnRanks(1 + seed % 4, [&](Ranks& ranks) {
      const GraphShare share = ShareOf(ranks, graph, types);
      const SymmetricShare symmetric = Symmetrize(ranks, share);
      EXPECT_EQ(symmetric.total_entries, want.size());
      const std::lock_guard<std::mutex> lock(mutex);
      for (uint64_t own = 0; own < symmetric.num_own(); ++own) {
        int64_t last = -1;
        for (auto at = symmetric.offsets[own]; at < symmetric.offsets[own + 1]; ++at) {
          const int64_t neighbour = symmetric.neighbours[static_cast<size_t>(at)];
          EXPECT_GT(neighbour, last);
          last = neighbour;
          got[{static_cast<int64_t>(share.first_node() + own), neighbour}] =
              symmetric.weight(static_cast<uint64_t>(at));
        }
      }
    });
    EXPECT_EQ(got, want);
  }
}

// What ranks count together is what one counts alone, of the same parts.
TEST(ShareAssignmentTest, FiguresAreThoseOfTheWholeGraph) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    const std::unique_ptr<const SourceGraph> source = RandomSourceGraph(seed);
    const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
    const SharedTypes types = TypesOf(graph);
    PartitionOptions options;
    options.num_parts = 2 + seed % 3;
    options.balance_edges = seed % 2 == 0;
    options.trainers_per_machine = 1 + seed % 5 / 3;
    const std::vector<uint32_t> part =
        RandomNumbers(graph.num_nodes(), options.num_parts * options.trainers_per_machine, seed);
    const Assignment want = *DescribeParts(graph, options, part);
    RunOnRanks(1 + seed % 4, [&](Ranks& ranks) {
      const GraphShare share = ShareOf(ranks, graph, types);
      const ShareAssignment got = DescribeShare(ranks, share, {}, options, OwnOf(share, part));
      EXPECT_EQ(got.finest, OwnOf(share, part));
      const Assignment& description = got.description;
      EXPECT_EQ(description.cut_edges, want.cut_edges);
      EXPECT_EQ(description.volume, want.volume);
      EXPECT_EQ(description.nodes_of_part, want.nodes_of_part);
      EXPECT_EQ(description.edges_of_part, want.edges_of_part);
      EXPECT_EQ(description.notes, want.notes);
      ASSERT_EQ(description.balance.size(), want.balance.size());
      for (size_t c = 0; c < want.balance.size(); ++c) {
        EXPECT_EQ(description.balance[c].name, want.balance[c].name);
        EXPECT_EQ(description.balance[c].largest, want.balance[c].largest);
        EXPECT_EQ(description.balance[c].achieved, want.balance[c].achieved);
        EXPECT_EQ(description.balance[c].met, want.balance[c].met);
      }
    });
  }
}

// Own moves alone bring scattered parts within every limit of classes, with numbers of nodes so
// tight that only pairs can change places, and lower the cut; on any number of ranks, of which the
// same number gives the same parts.
TEST(ShareAssignmentTest, OwnMovesMeetConstraintsThatTheEngineDoesNotKnow) {
  const std::unique_ptr<const SourceGraph> source = OneSetGraph(600, RingOfCliques(60, 10));
  const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
  const SharedTypes types = TypesOf(graph);
  PartitionOptions options;
  options.num_parts = 6;
  options.imbalance = 1.02;
  options.balance_edges = true;
  for (const uint32_t num_ranks : {1U, 2U, 4U}) {
    std::vector<uint32_t> all[2];
    for (std::vector<uint32_t>& run : all) {
      run.resize(600);
      RunOnRanks(num_ranks, [&](Ranks& ranks) {
        const GraphShare share = ShareOf(ranks, graph, types);
        OwnClasses classes;
        classes.num_classes = 3;
        for (uint64_t own = 0; own < share.num_own(); ++own) {
          classes.class_of.push_back(static_cast<uint16_t>((share.first_node() + own) % 10 / 4));
        }
        ScatteringEngine engine(share.first_node());
        const absl::StatusOr<ShareAssignment> made =
            AssignShare(ranks, share, {&classes, 1}, options, engine);
        ASSERT_THAT(made, IsOk());
        std::copy(made->finest.begin(), made->finest.end(),
                  run.begin() + static_cast<ptrdiff_t>(share.first_node()));
        if (ranks.rank() != 0) return;
        EXPECT_EQ(made->description.balance.size(), 6);
        for (const BalanceReport& balance : made->description.balance) {
          EXPECT_TRUE(balance.met) << balance.name << " " << balance.achieved;
        }
        EXPECT_THAT(made->description.notes, testing::Contains(testing::HasSubstr("6 of 6")));
        // Scattered parts cut five of six edges.
        EXPECT_LT(made->description.cut_edges, 2000);
      });
    }
    EXPECT_EQ(all[0], all[1]);
  }
}

// Weights that the engine is asked for, the parts, and what is told of them, for each number of
// ranks.
TEST(ShareAssignmentTest, TheSameArgumentsGiveTheseParts) {
  Fingerprint fingerprint;
  const auto assign = [&fingerprint](const HomogeneousGraph& graph, const PartitionOptions& options,
                                     uint32_t num_ranks) {
    const SharedTypes types = TypesOf(graph);
    std::vector<uint32_t> part(graph.num_nodes());
    std::vector<int64_t> asked(graph.num_nodes());
    Assignment description;
    RunOnRanks(num_ranks, [&](Ranks& ranks) {
      const GraphShare share = ShareOf(ranks, graph, types);
      const auto first = static_cast<ptrdiff_t>(share.first_node());
      std::vector<OwnClasses> classes;
      for (const NodeClasses& given : options.classes) {
        size_t type = 0;
        while (graph.node_types()[type].node_set != given.node_set) ++type;
        const SharedNodeType& nodes = types.node_types[type];
        OwnClasses own{type, {}, given.num_classes, given.names};
        for (uint64_t node = nodes.start; node < nodes.end(); ++node) {
          if (share.IsOwn(node)) own.class_of.push_back(given.class_of[node - nodes.start]);
        }
        classes.push_back(std::move(own));
      }
      ScatteringEngine engine(share.first_node());
      const auto made = AssignShare(ranks, share, classes, options, engine);
      ASSERT_THAT(made, IsOk());
      // Each rank has a range of its own.
      std::copy(made->finest.begin(), made->finest.end(), part.begin() + first);
      std::copy(engine.asked.begin(), engine.asked.end(), asked.begin() + first);
      if (ranks.rank() == 0) description = made->description;
    });
    fingerprint.AddAll(part);
    fingerprint.AddAll(asked);
    AddAssignment(description, fingerprint);
  };
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const auto source = RandomSourceGraph(seed);
    const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
    assign(graph, RandomOptions(graph, seed), static_cast<uint32_t>(1 + seed % 4));
  }
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SeededRandom random(seed);
    Pairs edges = RingOfCliques(20, 8);
    for (int i = 0; i < 200; ++i) {
      edges.emplace_back(random.Below(160), random.Below(1 + random.Below(160)));
    }
    const auto source = OneSetGraph(160, edges);
    const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
    assign(graph, RandomOptions(graph, seed), static_cast<uint32_t>(1 + seed % 3));
  }
  EXPECT_EQ(fingerprint.value(), 2020308020999865326U);
}

TEST(ShareAssignmentTest, NoPartIsLeftWithoutNodes) {
  const std::unique_ptr<const SourceGraph> source = OneSetGraph(40, RingOfCliques(4, 10));
  const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
  const SharedTypes types = TypesOf(graph);
  for (const uint32_t num_parts : {1U, 3U, 20U, 39U, 40U, 50U}) {
    SCOPED_TRACE(num_parts);
    PartitionOptions options;
    options.num_parts = num_parts;
    RunOnRanks(3, [&](Ranks& ranks) {
      const GraphShare share = ShareOf(ranks, graph, types);
      ScatteringEngine engine(share.first_node());
      const absl::StatusOr<ShareAssignment> made = AssignShare(ranks, share, {}, options, engine);
      ASSERT_THAT(made, IsOk());
      const std::vector<uint64_t>& nodes = made->description.nodes_of_part;
      EXPECT_EQ(std::count(nodes.begin(), nodes.end(), uint64_t{0}),
                std::max<int64_t>(int64_t{num_parts} - 40, 0));
    });
  }
}

// A constraint that no partition can meet is named and not asked for; a graph without edges needs
// no engine.
TEST(ShareAssignmentTest, HopelessConstraintsAreNamed) {
  const std::unique_ptr<const SourceGraph> source = OneSetGraph(12, {});
  const HomogeneousGraph graph = *HomogeneousGraph::Create(source.get());
  const SharedTypes types = TypesOf(graph);
  PartitionOptions options;
  options.num_parts = 4;
  options.balance_edges = true;
  RunOnRanks(5, [&](Ranks& ranks) {
    const GraphShare share = ShareOf(ranks, graph, types);
    ScatteringEngine engine(share.first_node());
    const absl::StatusOr<ShareAssignment> made = AssignShare(ranks, share, {}, options, engine);
    ASSERT_THAT(made, IsOk());
    EXPECT_EQ(made->description.nodes_of_part, std::vector<uint64_t>(4, 3));
    ASSERT_EQ(made->description.balance.size(), 1);
    EXPECT_EQ(made->description.balance[0].dropped, "there are none");
  });
}

}  // namespace
}  // namespace packhouse
