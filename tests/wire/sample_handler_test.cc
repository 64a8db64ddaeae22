#include "service/wings/graphs/services/sample_handler.h"

#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/graphs/epochs/seed_counter.h"
#include "tests/support/accounting.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unreadable_graph.h"
#include "tests/support/unwatched_streams.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint32_t kNodes = 300;

class CountingSampling final : public SamplingObserver {
 public:
  void OnDrawn(uint64_t num_seeds, uint64_t, uint64_t, uint32_t level) override {
    seeds += num_seeds;
    smaller += level != 0;
  }
  uint64_t seeds = 0;
  uint64_t smaller = 0;
};

class SampleHandlerTest : public ::testing::Test {
 protected:
  SampleHandlerTest() : handler_(NewHandler()) {}

  std::unique_ptr<SampleHandler> NewHandler() {
    return std::make_unique<SampleHandler>(
        &graphs_,
        std::make_unique<PackHandler>(&clock_, StreamBounds(), &histograms_, &observers_, &memory_),
        &memory_, &sampled_);
  }

  absl::Status Accept(const std::string& text) {
    auto request = std::make_unique<v1::SampleRequest>();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
    return handler_->Accept(std::move(request));
  }
  absl::Status AcceptSeeds(const std::vector<uint32_t>& nodes) {
    auto request = std::make_unique<v1::SampleRequest>();
    request->mutable_seeds()->mutable_seeds()->set_numbers(Uint32sToWire(nodes));
    return handler_->Accept(std::move(request));
  }
  static std::string Open(const std::string& rest, int first = 4, int second = 3) {
    return absl::StrCat("open { sub_graphs { graph: 'g' text: \"", TwoHopSpec(first, second),
                        "\" } seed: 5 ", rest, " }");
  }

  // Everything until the next request is needed.
  std::vector<v1::SampleResponse> TakeAll(absl::Status* failure = nullptr) {
    std::vector<v1::SampleResponse> responses;
    for (;;) {
      auto next = handler_->Next();
      if (!next.ok() && failure != nullptr) *failure = next.status();
      if (failure == nullptr) {
        EXPECT_THAT(next, IsOk());
      }
      if (next.ok() && !*next && handler_->IsBusy()) continue;
      if (!next.ok() || !*next) return responses;
      responses.push_back(ToMessage(**next));
    }
  }

  SimulatedClock clock_;
  HistogramStore histograms_{{}};
  UnwatchedStreams observers_;
  MemoryBudget memory_{uint64_t{256} << 20};
  OneGraphStore graphs_{SmallSourceGraph(kNodes)};
  CountingSampling sampled_;
  std::unique_ptr<SampleHandler> handler_;
};

constexpr char kPack[] =
    "pack { limits { capacities { component: 'n' rows: 64 } capacities { component: 'e' rows: 80 } "
    "capacities { component: 'graphs' rows: 32 } } padding: PADDING_MASKED }";

std::vector<uint32_t> AllNodes() {
  std::vector<uint32_t> nodes;
  for (uint32_t i = 0; i < kNodes; ++i) nodes.push_back(i);
  return nodes;
}

TEST_F(SampleHandlerTest, EverySubGraphLeavesInOneBatch) {
  ASSERT_THAT(Accept(Open(kPack)), IsOk());
  ASSERT_THAT(AcceptSeeds(AllNodes()), IsOk());
  std::vector<v1::SampleResponse> responses = TakeAll();
  handler_->HalfClose();
  for (v1::SampleResponse& rest : TakeAll()) responses.push_back(std::move(rest));
  ASSERT_TRUE(responses[0].has_opened());
  EXPECT_EQ(responses[0].opened().schema().components(0), "n");
  std::multiset<uint64_t> ids;
  for (size_t i = 1; i < responses.size(); ++i) {
    ASSERT_TRUE(responses[i].has_batch());
    const v1::Batch& batch = responses[i].batch();
    for (const uint64_t id : Uint64sFromWire(batch.graph_ids())) ids.insert(id);
    EXPECT_LE(batch.real_rows(0), 64);
    EXPECT_LE(batch.real_rows(1), 80);
    EXPECT_EQ(batch.tensors_size(), 3);
  }
  EXPECT_THAT(ids, SizeIs(kNodes));
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), kNodes);
  EXPECT_EQ(sampled_.seeds, kNodes);
  handler_.reset();
  EXPECT_EQ(memory_.held(), 0);
}

// What is known of seeds that came before grows with seeds that come again, and is held as it is.
TEST_F(SampleHandlerTest, WhatIsHeldOfSeedsIsWhatIsKnownOfThem) {
  ASSERT_THAT(Accept(Open("")), IsOk());
  TakeAll();
  SeedCounter known(kNodes, 1);
  const uint64_t others = memory_.held() - known.num_bytes();
  for (const uint32_t size : {8u, 30u, 100u, kNodes, kNodes}) {
    std::vector<uint32_t> nodes = AllNodes();
    nodes.resize(size);
    known.Count(nodes);
    ASSERT_THAT(AcceptSeeds(nodes), IsOk());
    TakeAll();
    EXPECT_EQ(memory_.held() - others, known.num_bytes()) << size;
  }
  EXPECT_GT(known.num_bytes(), 2 * SeedCounter(kNodes, 1).num_bytes());
  handler_.reset();
  EXPECT_EQ(memory_.held(), 0);
}

// Seeds that wait hold what they and their ids take.
TEST_F(SampleHandlerTest, WhatWaitsIsHeldWithItsIds) {
  uint64_t without_ids = 0;
  for (const bool has_ids : {false, true}) {
    handler_ = NewHandler();
    ASSERT_THAT(Accept(Open(kPack)), IsOk());
    TakeAll();
    const uint64_t before = memory_.held();
    auto request = std::make_unique<v1::SampleRequest>();
    request->mutable_seeds()->mutable_seeds()->set_numbers(Uint32sToWire(AllNodes()));
    if (has_ids) {
      request->mutable_seeds()->set_ids(Uint64sToWire(std::vector<uint64_t>(kNodes, 7)));
    }
    ASSERT_THAT(handler_->Accept(std::move(request)), IsOk());
    const uint64_t held = memory_.held() - before;
    if (has_ids) {
      EXPECT_EQ(held, without_ids + sizeof(uint64_t) * kNodes);
    } else {
      EXPECT_GE(held, sizeof(uint32_t) * kNodes);
      without_ids = held;
    }
    handler_.reset();
    EXPECT_EQ(memory_.held(), 0);
  }
}

// As many graphs of the same sizes as with their tensors.
TEST_F(SampleHandlerTest, BatchesOfSizesHaveTheSameSubGraphs) {
  std::map<uint64_t, std::string> sizes_of_graph;
  for (const bool only_sizes : {false, true}) {
    handler_ = NewHandler();
    std::string pack = kPack;
    if (only_sizes) pack.insert(pack.rfind('}'), " payload: PAYLOAD_SIZES ");
    ASSERT_THAT(Accept(Open(pack)), IsOk());
    ASSERT_THAT(AcceptSeeds(AllNodes()), IsOk());
    std::vector<v1::SampleResponse> responses = TakeAll();
    handler_->HalfClose();
    for (v1::SampleResponse& rest : TakeAll()) responses.push_back(std::move(rest));
    uint64_t graphs = 0;
    for (const v1::SampleResponse& response : responses) {
      const std::vector<uint64_t> ids = Uint64sFromWire(response.batch().graph_ids());
      if (only_sizes) {
        EXPECT_EQ(response.batch().tensors_size(), 0);
      }
      for (size_t i = 0; i < ids.size(); ++i) {
        const std::string size = response.batch().sizes().substr(8 * i, 8);
        if (only_sizes) {
          EXPECT_EQ(size, sizes_of_graph[ids[i]]);
        } else {
          sizes_of_graph[ids[i]] = size;
        }
      }
      graphs += ids.size();
    }
    EXPECT_EQ(graphs, kNodes);
  }
}

// What is drawn depends on the seed node, not on what else is in the stream.
TEST_F(SampleHandlerTest, SubGraphsComeInTheOrderOfTheirSeedsHoweverTheyAreSent) {
  std::map<uint64_t, std::string> sizes_of_node;
  for (const bool one_by_one : {false, true}) {
    handler_ = NewHandler();
    ASSERT_THAT(Accept(Open("")), IsOk());
    std::vector<v1::SampleResponse> responses;
    const std::vector<uint32_t> nodes = AllNodes();
    for (size_t i = 0; i < nodes.size(); i += one_by_one ? 1 : nodes.size()) {
      ASSERT_THAT(
          AcceptSeeds({nodes.begin() + static_cast<ptrdiff_t>(i),
                       one_by_one ? nodes.begin() + static_cast<ptrdiff_t>(i) + 1 : nodes.end()}),
          IsOk());
      for (v1::SampleResponse& next : TakeAll()) responses.push_back(std::move(next));
    }
    uint64_t next_id = 0;
    for (const v1::SampleResponse& response : responses) {
      if (!response.has_graphs()) continue;
      const std::vector<uint64_t> ids = Uint64sFromWire(response.graphs().sizes().graph_ids());
      const std::string& counts = response.graphs().sizes().counts();
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(ids[i], next_id++);
        const std::string size = counts.substr(8 * i, 8);
        if (one_by_one) {
          EXPECT_EQ(size, sizes_of_node[ids[i]]);
        } else {
          sizes_of_node[ids[i]] = size;
        }
      }
    }
    EXPECT_EQ(next_id, kNodes);
  }
}

TEST_F(SampleHandlerTest, NamesSubGraphsThatWereDrawnSmaller) {
  const std::string small =
      "pack { limits { capacities { component: 'n' rows: 9 } capacities { component: 'e' rows: 9 } "
      "capacities { component: 'graphs' rows: 4 } } padding: PADDING_MASKED }";
  ASSERT_THAT(Accept(Open(small)), IsOk());
  ASSERT_THAT(AcceptSeeds(AllNodes()), IsOk());
  std::vector<v1::SampleResponse> responses = TakeAll();
  handler_->HalfClose();
  for (v1::SampleResponse& rest : TakeAll()) responses.push_back(std::move(rest));
  uint64_t smaller = 0;
  uint64_t graphs = 0;
  for (const v1::SampleResponse& response : responses) {
    EXPECT_FALSE(response.has_rejected());
    graphs += response.batch().graph_ids().size() / 8;
    const std::vector<uint64_t> ids = Uint64sFromWire(response.batch().graph_ids());
    for (const v1::DrawnSmaller& one : response.drawn_smaller()) {
      EXPECT_NE(std::find(ids.begin(), ids.end(), one.graph_id()), ids.end());
      EXPECT_GT(one.level(), 0u);
      ++smaller;
    }
  }
  EXPECT_EQ(graphs, kNodes);
  EXPECT_GT(smaller, 0u);
  EXPECT_EQ(smaller, sampled_.smaller);
}

TEST_F(SampleHandlerTest, RefusedSubGraphsAreRejections) {
  const std::string small =
      "pack { limits { capacities { component: 'n' rows: 9 } capacities { component: 'graphs' "
      "rows: "
      "4 } } } beyond_limits: BEYOND_LIMITS_REFUSE";
  ASSERT_THAT(Accept(Open(small)), IsOk());
  ASSERT_THAT(AcceptSeeds(AllNodes()), IsOk());
  handler_->HalfClose();
  uint64_t graphs = 0;
  uint64_t rejected = 0;
  for (const v1::SampleResponse& response : TakeAll()) {
    graphs += response.batch().graph_ids().size() / 8;
    rejected += static_cast<uint64_t>(response.rejected().rejections_size());
  }
  EXPECT_GT(rejected, 0u);
  EXPECT_EQ(graphs + rejected, kNodes);
}

TEST_F(SampleHandlerTest, NamesWhatIsWrong) {
  EXPECT_THAT(AcceptSeeds({1}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("open")));
  EXPECT_THAT(Accept("open { sub_graphs { graph: 'g' } }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sampling spec")));
  EXPECT_THAT(
      Accept(absl::StrCat("open { sub_graphs { graph: 'h' text: \"", TwoHopSpec(1, 1), "\" } }")),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("'h'")));
  EXPECT_THAT(Accept(Open("pack { schema { components: 'n' } }")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pack.schema")));
  handler_ = NewHandler();
  ASSERT_THAT(Accept(Open("")), IsOk());
  EXPECT_THAT(AcceptSeeds({1, kNodes}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("node 300 at position 1")));
  EXPECT_THAT(Accept(Open("")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("second 'open'")));
  // Times that nothing looks at would keep no edge of the future out.
  EXPECT_THAT(
      Accept("seeds { seeds { numbers: '\\0\\0\\0\\0' times: '\\0\\0\\0\\0\\0\\0\\0\\0' } }"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("seeds.times")));
}

TEST_F(SampleHandlerTest, SeedsAreRefusedByTheirFields) {
  ASSERT_THAT(Accept(Open("")), IsOk());
  TakeAll();
  const auto refused = [&](const std::string& text, absl::StatusCode code, const std::string& why) {
    EXPECT_THAT(Accept(text), StatusIs(code, why)) << text;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  refused("", kInvalid, "the request carries none of 'open', 'seeds', 'flush'");
  const auto of = [](const std::string& seeds) {
    return absl::StrCat("seeds { seeds { ", seeds, " } }");
  };
  const std::string zero = "numbers: '\\0\\0\\0\\0' ";
  refused(of(""), kInvalid, "seeds: has neither numbers nor ids nor rows");
  refused(of("ids {}"), kInvalid, "seeds.ids: has neither integers nor text");
  refused(of("ids { text {} }"), kInvalid, "seeds.ids: text, the node set's ids are integers");
  refused(of("ids { integers: 'abc' }"), kInvalid,
          "seeds.ids.integers: 3 bytes, must be a multiple of 8");
  refused(of("numbers: 'abc'"), kInvalid, "seeds.numbers: 3 bytes, must be a multiple of 4");
  refused(of("rows: 'abc'"), kInvalid, "seeds.rows: 3 bytes, must be a multiple of 8");
  refused(of(zero + "occurrences: 'abc'"), kInvalid,
          "seeds.occurrences: 3 bytes, must be a multiple of 4");
  refused(of(zero + "occurrences: 'abcdefgh'"), kInvalid,
          "seeds.occurrences: 2 of them, there are 1 seeds");
  refused(of(zero + "readout { name: 'y' }"), kInvalid,
          "seeds.readout: `_readout` has no column 'y'");
  refused(of("ids { integers: '\\377\\0\\0\\0\\0\\0\\0\\1' }"), absl::StatusCode::kNotFound,
          "seeds: node set 'n' has no node 72057594037928191");
  refused(of("rows: '\\54\\1\\0\\0\\0\\0\\0\\0'"), absl::StatusCode::kOutOfRange,
          "seeds.rows: row 300 at position 0, node set 'n' has 300 rows");
  refused(absl::StrCat("seeds { ids: 'abc' seeds { ", zero, "} }"), kInvalid,
          "ids: 3 bytes, 8 for each of 1 sub-graphs are 8");
  refused(absl::StrCat("seeds { first_id: 18446744073709551615 seeds { ", zero, "} }"), kInvalid,
          "first_id: 18446744073709551615 and 1 sub-graphs exceed 2^64 - 1");
  EXPECT_THAT(Accept(absl::StrCat("seeds { first_id: 18446744073709551614 seeds { ", zero, "} }")),
              IsOk());
}

TEST_F(SampleHandlerTest, OptionsAreRefusedByTheirFields) {
  const auto refused = [&](const std::string& text, const std::string& why) {
    EXPECT_THAT(Accept(text), StatusIs(absl::StatusCode::kInvalidArgument, why)) << text;
  };
  const auto of = [](const std::string& option) {
    return absl::StrCat("open { sub_graphs { graph: 'g' text: \"", TwoHopSpec(1, 1), "\" ", option,
                        " } }");
  };
  refused(of("exclude: 9"), "exclude: 9 is not one of ExcludeLinks");
  refused(Open("beyond_limits: 9"), "beyond_limits: 9 is not one of BeyondLimits");
  refused(of("readout: true readout_columns { name: 'y' dtype: 99 }"),
          "column 'y' of '_readout': dtype 99 is none");
  refused("open { sub_graphs { graph: 'g' } }",
          "sub_graphs: has no sampling spec: neither text nor binary");
  EXPECT_THAT(Accept("flush {}"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           "the first request of a stream must carry 'open'"));
  SampleHandler without(
      nullptr,
      std::make_unique<PackHandler>(&clock_, StreamBounds(), &histograms_, &observers_, &memory_),
      &memory_, &sampled_);
  auto request = std::make_unique<v1::SampleRequest>();
  request->mutable_open();
  EXPECT_THAT(without.Accept(std::move(request)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "source graphs need a folder for data: the server was started without "
                       "--data-dir"));
}

TEST_F(SampleHandlerTest, TheRowsOfTheReadoutComeWithTheSeeds) {
  ASSERT_THAT(Accept(absl::StrCat("open { sub_graphs { graph: 'g' text: \"", TwoHopSpec(1, 1),
                                  "\" readout: true readout_columns { name: 'label' dtype: "
                                  "DATA_TYPE_INT8 } readout_columns { name: 'y' dtype: "
                                  "DATA_TYPE_INT8 row_shape: 2 } } }")),
              IsOk());
  TakeAll();
  const auto of = [](const std::string& readout) {
    return absl::StrCat("seeds { seeds { numbers: '\\1\\0\\0\\0\\2\\0\\0\\0' ", readout, " } }");
  };
  const auto refused = [&](const std::string& readout, const std::string& why) {
    EXPECT_THAT(Accept(of(readout)), StatusIs(absl::StatusCode::kInvalidArgument, why));
  };
  const std::string label = "readout { name: 'label' data: 'ab' } ";
  const std::string y = "readout { name: 'y' data: 'cdef' } ";
  refused("", "seeds.readout: empty, but `_readout` has features, 'label' the first");
  refused(label + label, "seeds.readout: column 'label' is there twice");
  refused(label, "seeds.readout: column 'y' is missing");
  refused(label + "readout { name: 'y' data: 'cde' }",
          "seeds.readout: column 'y' has 3 bytes, 2 rows take 4");
  ASSERT_THAT(Accept(of(y + label)), IsOk());
  const std::vector<v1::SampleResponse> responses = TakeAll();
  ASSERT_THAT(responses, SizeIs(1));
  std::map<std::string, std::string> tensors;
  for (const v1::TensorData& tensor : responses[0].graphs().tensors()) {
    tensors[tensor.name()] = tensor.data();
  }
  EXPECT_EQ(tensors["_readout.label"], "ab");
  EXPECT_EQ(tensors["_readout.y"], "cdef");
}

TEST_F(SampleHandlerTest, SeedsByTextAreCutByTheirLengths) {
  auto schema = SourceGraphSchema::Create({{"n", {}}}, {{"e", 0, 0, {}, std::nullopt}});
  const OneGraphStore named(
      MakeMemorySourceGraph(*std::move(schema), 1, {{2, {}, {"a", "bc"}, {}}}, {{}}).value());
  SampleHandler handler(
      &named,
      std::make_unique<PackHandler>(&clock_, StreamBounds(), &histograms_, &observers_, &memory_),
      &memory_, &sampled_);
  const auto accept = [&handler](const std::string& text) {
    auto request = std::make_unique<v1::SampleRequest>();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
    return handler.Accept(std::move(request));
  };
  ASSERT_THAT(accept(Open("")), IsOk());
  const auto of = [&](const std::string& ids) {
    return accept(absl::StrCat("seeds { seeds { ids { ", ids, " } } }"));
  };
  const std::string lengths = "lengths: '\\2\\0\\0\\0\\1\\0\\0\\0' } ";
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(of("text { data: 'bca' " + lengths), IsOk());
  EXPECT_THAT(of("integers: ''"),
              StatusIs(kInvalid, "seeds.ids: integers, the node set's ids are text"));
  EXPECT_THAT(of("text { data: 'bc' " + lengths),
              StatusIs(kInvalid, "seeds.ids.text: 2 bytes of ids, the lengths say more"));
  EXPECT_THAT(of("text { data: 'bcabc' " + lengths),
              StatusIs(kInvalid, "seeds.ids.text: 2 bytes of ids more than the lengths say"));
  EXPECT_THAT(of("text { data: 'bcd' " + lengths),
              StatusIs(absl::StatusCode::kNotFound, "seeds: node set 'n' has no node 'd'"));
  EXPECT_THAT(of("text { lengths: 'abc' }"),
              StatusIs(kInvalid, "seeds.ids.text.lengths: 3 bytes, must be a multiple of 4"));
}

// The ids of both ends must be sound, and of one kind.
TEST_F(SampleHandlerTest, LinksByIdNeedTheIdsOfBothEnds) {
  const auto seeds_of = [&](bool is_text, const std::string& ids, const auto& change) {
    MemoryNodeSet numbered;
    numbered.num_nodes = 2;
    numbered.integer_ids = {5, 6};
    MemoryNodeSet other = numbered;
    if (is_text) {
      other.integer_ids.clear();
      other.text_ids = {"a", "bc"};
    }
    auto schema = SourceGraphSchema::Create({{"m", {}}, {"n", {}}}, {{"e", 0, 1, {}, {}}});
    auto graph = std::make_unique<UnreadableGraph>(
        MakeMemorySourceGraph(*std::move(schema), 1, {numbered, other}, {{{0}, {1}, {}}}).value());
    change(*graph);
    const OneGraphStore store(std::move(graph));
    SampleHandler handler(
        &store,
        std::make_unique<PackHandler>(&clock_, StreamBounds(), &histograms_, &observers_, &memory_),
        &memory_, &sampled_);
    const auto accept = [&handler](const std::string& text) {
      auto request = std::make_unique<v1::SampleRequest>();
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
      return handler.Accept(std::move(request)).ToString();
    };
    EXPECT_EQ(
        accept("open { sub_graphs { graph: 'g' link_edge_set: 'e' text: \"symmetric_link_seed_op "
               "{ op_name: 'seed' } sampling_ops { op_name: 'a' input_op_names: 'seed' "
               "edge_set_name: 'e' sample_size: 1 strategy: RANDOM_UNIFORM }\" } }"),
        "OK");
    return accept(absl::StrCat("seeds { seeds { ", ids, " } }"));
  };
  using Graph = UnreadableGraph;
  const auto link = [](uint64_t source, uint64_t target) {
    return absl::StrCat("ids { integers: '", absl::CEscape(Uint64sToWire({source, target})), "' }");
  };
  EXPECT_EQ(seeds_of(false, link(6, 5), [](Graph&) {}), "OK");
  EXPECT_EQ(seeds_of(false, link(7, 5), [](Graph&) {}),
            "NOT_FOUND: seeds: node set 'm' has no node 7");
  EXPECT_EQ(seeds_of(false, link(5, 7), [](Graph&) {}),
            "NOT_FOUND: seeds: node set 'n' has no node 7");
  EXPECT_EQ(seeds_of(false, link(6, 5), [](Graph& g) { g.DamageIds(0); }),
            "DATA_LOSS: " + Graph::DamageOf("ids 0", 16));
  EXPECT_EQ(seeds_of(false, link(6, 5), [](Graph& g) { g.DamageIds(1); }),
            "DATA_LOSS: " + Graph::DamageOf("ids 1", 16));
  const std::string mixed =
      "INVALID_ARGUMENT: seeds.ids: the ids of one end of links are integers, those of the other "
      "are text: give rows or numbers";
  EXPECT_EQ(seeds_of(true, link(6, 5), [](Graph&) {}), mixed);
  EXPECT_EQ(seeds_of(true, "ids { text {} }", [](Graph&) {}), mixed);
  EXPECT_EQ(seeds_of(false, absl::StrCat("rows: '", absl::CEscape(Uint64sToWire({1, 2})), "'"),
                     [](Graph&) {}),
            "OUT_OF_RANGE: seeds.rows: row 2 at position 0, node set 'n' has 2 rows");
  EXPECT_EQ(seeds_of(false, "numbers: '\\0\\0\\0\\0' times: 'abc'", [](Graph&) {}),
            "INVALID_ARGUMENT: seeds.times: 3 bytes, must be a multiple of 8");
}

// What is damaged ends the stream, after what was drawn before.
TEST_F(SampleHandlerTest, DamageThatADrawMeetsEndsTheStream) {
  for (const bool packs : {false, true}) {
    auto graph = std::make_unique<UnreadableGraph>(SmallSourceGraph(kNodes));
    graph->DamageNodeColumn(0, 0);
    const OneGraphStore store(std::move(graph));
    handler_ = std::make_unique<SampleHandler>(
        &store,
        std::make_unique<PackHandler>(&clock_, StreamBounds(), &histograms_, &observers_, &memory_),
        &memory_, &sampled_);
    ASSERT_THAT(Accept(Open(packs ? kPack : "")), IsOk());
    TakeAll();
    ASSERT_THAT(AcceptSeeds({1, 2, 3}), IsOk());
    absl::Status failure;
    EXPECT_THAT(TakeAll(&failure), SizeIs(0));
    const auto damaged = StatusIs(absl::StatusCode::kDataLoss,
                                  UnreadableGraph::DamageOf("node 0 0", 8 * uint64_t{kNodes}));
    EXPECT_THAT(failure, damaged);
    EXPECT_THAT(AcceptSeeds({1}), damaged);
    handler_.reset();
    EXPECT_EQ(memory_.held(), 0);
  }
  handler_ = NewHandler();
}

TEST_F(SampleHandlerTest, AStreamThatIsNotOpenWaitsForNothing) {
  v1::SampleRequest open;
  open.mutable_open();
  EXPECT_TRUE(handler_->OpensOnStore(open));
  EXPECT_FALSE(handler_->OpensOnStore(v1::SampleRequest()));
  EXPECT_TRUE(handler_->MayBlock());
  EXPECT_FALSE(handler_->IsBusy());
  EXPECT_FALSE(handler_->IsWaiting());
  EXPECT_EQ(handler_->NextDeadline(), absl::InfiniteFuture());
  EXPECT_FALSE(handler_->Next().value().has_value());
  ASSERT_THAT(Accept(Open("")), IsOk());
  EXPECT_FALSE(handler_->OpensOnStore(open));
  EXPECT_EQ(handler_->NextDeadline(), absl::InfiniteFuture());
  TakeAll();
  // No seeds are no graphs.
  ASSERT_THAT(AcceptSeeds({}), IsOk());
  EXPECT_FALSE(handler_->IsBusy());
  EXPECT_THAT(TakeAll(), SizeIs(0));
  ASSERT_THAT(Accept("flush { token: 3 }"), IsOk());
  const std::vector<v1::SampleResponse> responses = TakeAll();
  ASSERT_THAT(responses, SizeIs(1));
  EXPECT_EQ(responses[0].flushed().token(), 3U);
  EXPECT_EQ(responses[0].flushed().num_graphs(), 0U);
}

// Whatever finds no room, it is told, and nothing is held afterwards.
TEST_F(SampleHandlerTest, WhatAStreamReservesIsAccountedFor) {
  for (const std::string& pack : {std::string(), std::string(kPack)}) {
    ExpectAccounted(
        [&](MemoryBudget* memory) -> absl::StatusOr<int> {
          handler_ = std::make_unique<SampleHandler>(
              &graphs_,
              std::make_unique<PackHandler>(&clock_, StreamBounds(), &histograms_, &observers_,
                                            memory),
              memory, &sampled_);
          const auto ends = [this] {
            absl::Status failure;
            TakeAll(&failure);
            return failure;
          };
          absl::Status ended = Accept(Open(pack));
          for (const bool again : {false, true}) {
            if (ended.ok()) ended = ends();
            if (ended.ok()) ended = AcceptSeeds(again ? std::vector<uint32_t>(40, 7) : AllNodes());
          }
          if (ended.ok()) ended = ends();
          if (ended.ok()) handler_->HalfClose();
          if (ended.ok()) ended = ends();
          handler_.reset();
          if (!ended.ok()) return ended;
          return 0;
        },
        [](int) { return uint64_t{0}; });
  }
  handler_ = NewHandler();
}

// 256 sub-graphs, or as many as have 16,384 rows.
TEST_F(SampleHandlerTest, AnswersHaveAFewThousandRows) {
  for (const auto& [first, second] : {std::pair(2, 1), std::pair(12, 12)}) {
    handler_ = NewHandler();
    ASSERT_THAT(Accept(Open("", first, second)), IsOk());
    ASSERT_THAT(AcceptSeeds(AllNodes()), IsOk());
    std::vector<uint64_t> sizes;
    for (const v1::SampleResponse& response : TakeAll()) {
      if (!response.has_graphs()) continue;
      const std::vector<uint32_t> counts = Uint32sFromWire(response.graphs().sizes().counts());
      sizes.push_back(counts.size() / 2);
      const uint64_t rows = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
      const uint64_t last = counts.end()[-1] + counts.end()[-2];
      EXPECT_LT(rows - last, 16384U);
      if (first != 2 && sizes.size() == 1) {
        EXPECT_GE(rows, 16384U);
      }
    }
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}), kNodes);
    if (first == 2) {
      EXPECT_THAT(sizes, ::testing::ElementsAre(256, kNodes - 256));
    } else {
      EXPECT_EQ(sizes.size(), 2U);
    }
  }
}

TEST_F(SampleHandlerTest, ARequestHasNoMoreSeedsThanAllowed) {
  ASSERT_THAT(Accept(Open("")), IsOk());
  TakeAll();
  std::vector<uint32_t> nodes((1 << 20) + 1, 5);
  EXPECT_THAT(AcceptSeeds(nodes), StatusIs(absl::StatusCode::kInvalidArgument,
                                           "seeds: 1048577 in one request, at most 1048576"));
  EXPECT_FALSE(handler_->IsBusy());
  nodes.pop_back();
  EXPECT_THAT(AcceptSeeds(nodes), IsOk());
  EXPECT_TRUE(handler_->IsBusy());
}

// What was drawn before comes first. The stream has ended then.
TEST_F(SampleHandlerTest, ASubGraphThatCannotBeDrawnEndsTheStream) {
  const std::string open =
      absl::StrCat("open { sub_graphs { graph: 'g' seeds_per_graph: 3 text: \"", TwoHopSpec(1, 1),
                   "\" } pack { limits { capacities { component: 'n' rows: 2 } } } }");
  ASSERT_THAT(Accept(open), IsOk());
  ASSERT_THAT(AcceptSeeds({5, 5, 5, 1, 2, 3}), IsOk());
  EXPECT_TRUE(handler_->IsBusy());
  absl::Status failure;
  std::multiset<uint64_t> ids;
  for (const v1::SampleResponse& response : TakeAll(&failure)) {
    for (const uint64_t id : Uint64sFromWire(response.batch().graph_ids())) ids.insert(id);
  }
  const auto failed =
      StatusIs(absl::StatusCode::kOutOfRange,
               "sub-graph 1: the seeds alone do not fit: node set 'n' has 3 of them, the limit is "
               "2");
  EXPECT_THAT(failure, failed);
  EXPECT_THAT(ids, ::testing::ElementsAre(0));
  EXPECT_THAT(Accept("flush { token: 1 }"), failed);
  EXPECT_THAT(handler_->Next().status(), failed);
  EXPECT_FALSE(handler_->IsBusy());
}

// As a stream of graphs does for a device.
TEST_F(SampleHandlerTest, TellsTheLimitsThatWereFoundForADevice) {
  ASSERT_THAT(
      Accept(Open("pack { device_profile { components { component: 'n' max_rows: 512 } components "
                  "{ component: 'e' max_rows: 512 } components { component: 'graphs' max_rows: 64 "
                  "} } calibration { num_graphs: 200 } drift { num_graphs: 1000 } }")),
      IsOk());
  std::vector<uint32_t> nodes;
  for (uint32_t i = 0; i < 5000; ++i) nodes.push_back(i % 13);
  for (uint32_t i = 0; i < 5000; ++i) nodes.push_back(12);
  std::vector<v1::SampleResponse> responses;
  const auto send = [&](const std::vector<uint32_t>& seeds) {
    ASSERT_THAT(AcceptSeeds(seeds), IsOk());
    for (v1::SampleResponse& next : TakeAll()) responses.push_back(std::move(next));
  };
  send(nodes);
  send(std::vector<uint32_t>(10000, 0));
  uint64_t tuned = 0;
  uint64_t drifted = 0;
  for (const v1::SampleResponse& response : responses) {
    tuned += response.has_tuned();
    drifted += response.has_drifted();
  }
  EXPECT_EQ(tuned, 1U);
  EXPECT_GT(drifted, 0U);
}

TEST_F(SampleHandlerTest, AFlushIsAnsweredAfterTheBatches) {
  ASSERT_THAT(Accept(Open(kPack)), IsOk());
  ASSERT_THAT(AcceptSeeds({1, 2, 3}), IsOk());
  TakeAll();
  ASSERT_THAT(Accept("flush { token: 9 }"), IsOk());
  const std::vector<v1::SampleResponse> responses = TakeAll();
  ASSERT_THAT(responses, SizeIs(2));
  EXPECT_TRUE(responses[0].has_batch());
  EXPECT_EQ(responses[1].flushed().token(), 9u);
  EXPECT_EQ(responses[1].flushed().num_graphs(), 3u);
}

}  // namespace
}  // namespace packhouse
