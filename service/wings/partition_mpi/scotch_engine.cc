#include "service/wings/partition_mpi/scotch_engine.h"

#include <malloc.h>
#include <mpi.h>
#include <ptscotch.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

static_assert(sizeof(SCOTCH_Num) == sizeof(int64_t), "the 64-bit variant is needed");

constexpr uint64_t kMostEntries = INT32_MAX;

// Frees at its end what has been initialised.
template <typename Thing>
class Freed {
 public:
  explicit Freed(void (*free)(Thing*)) : free_(free) {}
  Freed(const Freed&) = delete;
  Freed& operator=(const Freed&) = delete;
  ~Freed() {
    if (ready_) free_(&thing_);
  }

  Thing* get() { return &thing_; }
  // What an initialising call gave: 0 if it went well.
  bool Ready(int result) { return ready_ = result == 0; }

 private:
  Thing thing_;
  void (*const free_)(Thing*);
  bool ready_ = false;
};

absl::Status Failed(const char* what) {
  return absl::InternalError(absl::StrCat("PT-Scotch failed to ", what));
}

class ScotchEngine : public ShareEngine {
 public:
  explicit ScotchEngine(MpiRanks* ranks) : ranks_(*ranks) {}

  absl::StatusOr<std::vector<uint32_t>> Assign(SymmetricShare& graph,
                                               std::vector<int64_t>& node_weights,
                                               uint32_t num_parts, double imbalance,
                                               uint64_t seed) override {
    const uint64_t most = MaxOfRanks(ranks_, graph.neighbours.size());
    if (most > kMostEntries) {
      return absl::OutOfRangeError(absl::StrCat(
          "a rank has ", most, " entries (ends of edges), PT-Scotch takes at most ", kMostEntries,
          " on each: run it with at least ", (most / kMostEntries + 1) * ranks_.size(), " ranks"));
    }
    std::vector<int64_t> part(std::max<size_t>(graph.num_own(), 1));
    PH_RETURN_IF_ERROR(Agree(ranks_, Run(graph, node_weights, num_parts, imbalance, seed, part)));
    // What PT-Scotch has freed goes back to the system: nothing after it needs as much.
    ::malloc_trim(0);
    std::vector<uint32_t> result(graph.num_own());
    bool wrong = false;
    for (uint64_t own = 0; own < result.size(); ++own) {
      wrong = wrong || part[own] < 0 || part[own] >= int64_t{num_parts};
      result[own] = static_cast<uint32_t>(part[own]);
    }
    PH_RETURN_IF_ERROR(
        Agree(ranks_, wrong ? Failed("give a part to each node") : absl::OkStatus()));
    return result;
  }

 private:
  absl::Status Run(SymmetricShare& graph, std::vector<int64_t>& node_weights, uint32_t num_parts,
                   double imbalance, uint64_t seed, std::vector<int64_t>& part) {
    // An array is there on all ranks or on none, also where it has no elements. PT-Scotch takes
    // two arrays that are one for none.
    const bool weighted = AnyRank(ranks_, !graph.weights.empty());
    SCOTCH_Num nothing[3] = {};
    const auto data = [&nothing](std::vector<int64_t>& values, size_t which) {
      return values.empty() ? nothing + which : values.data();
    };
    const auto own = static_cast<SCOTCH_Num>(graph.num_own());
    const auto entries = static_cast<SCOTCH_Num>(graph.neighbours.size());

    Freed<SCOTCH_Dgraph> plain(&SCOTCH_dgraphExit);
    if (!plain.Ready(SCOTCH_dgraphInit(plain.get(), ranks_.communicator()))) return Failed("begin");
    if (SCOTCH_dgraphBuild(plain.get(), 0, own, own, graph.offsets.data(), graph.offsets.data() + 1,
                           data(node_weights, 0), nullptr, entries, entries,
                           data(graph.neighbours, 1), nullptr,
                           weighted ? data(graph.weights, 2) : nullptr) != 0) {
      return Failed("take the graph");
    }
    Freed<SCOTCH_Context> context(&SCOTCH_contextExit);
    if (!context.Ready(SCOTCH_contextInit(context.get()))) return Failed("make a context");
    // More threads would share the cores with the other ranks.
    if (SCOTCH_contextOptionSetNum(context.get(), SCOTCH_OPTIONNUMDETERMINISTIC, 1) != 0 ||
        SCOTCH_contextOptionSetNum(context.get(), SCOTCH_OPTIONNUMRANDOMFIXEDSEED, 1) != 0 ||
        SCOTCH_contextThreadSpawn(context.get(), 1, nullptr) != 0 ||
        SCOTCH_contextRandomClone(context.get()) != 0) {
      return Failed("be deterministic");
    }
    SCOTCH_contextRandomSeed(context.get(), static_cast<SCOTCH_Num>(seed));
    SCOTCH_contextRandomReset(context.get());
    Freed<SCOTCH_Dgraph> bound(&SCOTCH_dgraphExit);
    if (!bound.Ready(SCOTCH_contextBindDgraph(context.get(), plain.get(), bound.get()))) {
      return Failed("bind the graph");
    }
    Freed<SCOTCH_Strat> strategy(&SCOTCH_stratExit);
    if (!strategy.Ready(SCOTCH_stratInit(strategy.get())) ||
        SCOTCH_stratDgraphMapBuild(strategy.get(), SCOTCH_STRATDEFAULT, ranks_.size(), num_parts,
                                   std::max(imbalance - 1, 0.0)) != 0) {
      return Failed("make a strategy");
    }
    if (SCOTCH_dgraphPart(bound.get(), num_parts, strategy.get(), part.data()) != 0) {
      return Failed("cut");
    }
    return absl::OkStatus();
  }

  MpiRanks& ranks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShareEngine>> MakeScotchEngine(MpiRanks* ranks) {
  if (SCOTCH_numSizeof() != sizeof(SCOTCH_Num)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the PT-Scotch that was loaded has numbers of ", SCOTCH_numSizeof(), " bytes, must be ",
        sizeof(SCOTCH_Num), ": Debian has that variant in the folder scotch-int64"));
  }
  return std::make_unique<ScotchEngine>(ranks);
}

}  // namespace packhouse
