#include "service/server/services/append_handler.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/tfgnn/tfgnn_format.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AppendHandlerTest : public ::testing::Test {
 protected:
  static constexpr char kOneGraph[] =
      R"(graphs { sizes { num_graphs: 1 counts: "\1\0\0\0\2\0\0\0" } })";
  static constexpr char kTwoGraphs[] =
      R"(graphs { sizes { num_graphs: 2 counts: "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0" } })";

  void Create(const std::string& name, bool grouped = false) {
    DatasetOptions options;
    options.grouped = grouped;
    const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
    ASSERT_THAT(store_.Create(name, schema, options), IsOk());
  }

  // The answer to a request in text format.
  static absl::StatusOr<v1::AppendResponse> Append(AppendHandler& handler,
                                                   const std::string& text) {
    auto request = std::make_unique<v1::AppendRequest>();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
    if (const absl::Status status = handler.Accept(std::move(request)); !status.ok()) return status;
    auto response = handler.Next();
    EXPECT_THAT(response, IsOk());
    EXPECT_EQ(*handler.Next(), std::nullopt);
    return **std::move(response);
  }
  absl::StatusOr<v1::AppendResponse> Append(const std::string& text) {
    return Append(handler_, text);
  }

  std::vector<uint64_t> StoredIds(const std::string& name) {
    const auto reader = store_.OpenReader(name).value();
    return {reader->graph_ids().begin(), reader->graph_ids().end()};
  }

  MemoryDatasetStore store_{1 << 20};
  AppendHandler handler_{&store_};
};

TEST_F(AppendHandlerTest, TheFirstRequestNamesTheDataSetForAll) {
  EXPECT_THAT(Append(kOneGraph), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("must be named in the first request")));
  EXPECT_THAT(Append(std::string("dataset: 'd'") + kOneGraph),
              StatusIs(absl::StatusCode::kNotFound, _));
  Create("d");
  ASSERT_THAT(Append(std::string("dataset: 'd'") + kOneGraph), IsOk());
  ASSERT_THAT(Append(kOneGraph), IsOk());
  ASSERT_THAT(Append(std::string("dataset: 'd'") + kOneGraph), IsOk());
  EXPECT_THAT(Append(std::string("dataset: 'e'") + kOneGraph),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the stream appends to 'd'")));
  EXPECT_EQ(store_.Get("d")->num_graphs, 3U);
}

TEST_F(AppendHandlerTest, AChangeOfSizesIsKnown) {
  DatasetDrifts drifts(nullptr);
  MemoryDatasetStore store(uint64_t{1} << 30);
  ASSERT_THAT(store.Create("d", GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value(), {}),
              IsOk());
  AppendHandler handler(&store, nullptr, nullptr, &drifts);
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  const uint64_t id = store.Get("d")->id;
  v1::DatasetDrift drift;
  for (uint32_t chunk = 0; chunk < 80; ++chunk) {
    // 8,000 graphs of 10 nodes, then as many of 11.
    const uint32_t nodes = chunk < 40 ? 10 : 11;
    std::vector<uint32_t> counts;
    for (int i = 0; i < 200; ++i) counts.insert(counts.end(), {nodes, 20});
    auto request = std::make_unique<v1::AppendRequest>();
    request->set_dataset("d");
    request->mutable_graphs()->mutable_sizes()->set_num_graphs(200);
    request->mutable_graphs()->mutable_sizes()->set_counts(Uint32sToWire(counts));
    ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
    ASSERT_THAT(handler.Next(), IsOk());
    if (chunk < 40) {
      EXPECT_FALSE(drifts.ToWire(id, schema, drift));
    }
  }
  ASSERT_TRUE(drifts.ToWire(id, schema, drift));
  EXPECT_EQ(drift.num_changes(), 1U);
  EXPECT_GE(drift.found_graph(), 8000U);
  EXPECT_LE(drift.found_graph(), 8200U);
  EXPECT_LE(drift.first_graph(), drift.found_graph());
  ASSERT_EQ(drift.components_size(), 2);
  EXPECT_EQ(drift.components(0).component(), "nodes");
  EXPECT_EQ(drift.components(0).reference_mean(), 10);
  EXPECT_EQ(drift.components(0).mean(), 11);
  EXPECT_EQ(drift.components(1).mean(), 20);
  EXPECT_EQ(
      drift.ShortDebugString(),
      "first_graph: 7887 found_graph: 8025 components { component: \"nodes\" reference_mean: 10 "
      "mean: 11 } components { component: \"edges\" reference_mean: 20 mean: 20 } num_changes: 1");
  // The graphs after a change are the next reference; of a large chunk some stand for the others.
  const auto append_many = [&](uint32_t nodes) {
    std::vector<uint32_t> counts;
    for (int i = 0; i < 60'000; ++i) counts.insert(counts.end(), {nodes, 20});
    auto request = std::make_unique<v1::AppendRequest>();
    request->set_dataset("d");
    request->mutable_graphs()->mutable_sizes()->set_num_graphs(60'000);
    request->mutable_graphs()->mutable_sizes()->set_counts(Uint32sToWire(counts));
    ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
    ASSERT_THAT(handler.Next(), IsOk());
  };
  for (int chunk = 0; chunk < 4; ++chunk) append_many(13);
  ASSERT_TRUE(drifts.ToWire(id, schema, drift));
  EXPECT_EQ(
      drift.ShortDebugString(),
      "first_graph: 19012 found_graph: 19186 components { component: \"nodes\" reference_mean: 11 "
      "mean: 13 } components { component: \"edges\" reference_mean: 20 mean: 20 } num_changes: 2");
  // What was told stays when the data set is sealed, until it is deleted.
  drifts.EndWatch(id);
  v1::DatasetDrift told;
  ASSERT_TRUE(drifts.ToWire(id, schema, told));
  EXPECT_EQ(told.SerializeAsString(), drift.SerializeAsString());
  drifts.Forget(id);
  EXPECT_FALSE(drifts.ToWire(id, schema, drift));
}

// After a restart of the server a watch begins with what is stored, if that suffices for a
// reference; otherwise the next graphs are one.
TEST_F(AppendHandlerTest, AWatchThatIsOpenedLaterTellsOfTheSameChange) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  constexpr uint64_t kChunk = 100;
  for (const uint64_t stored : {DatasetDrifts::kGraphs - 1, DatasetDrifts::kGraphs,
                                DatasetDrifts::kGraphs + 1, 3 * DatasetDrifts::kGraphs}) {
    const std::string name = absl::StrCat("d", stored);
    Create(name);
    uint64_t num_graphs = 0;
    const auto append = [&](AppendHandler& handler, uint32_t nodes, uint64_t up_to) {
      while (num_graphs < up_to) {
        const uint64_t n = std::min(kChunk, up_to - num_graphs);
        std::vector<uint32_t> counts;
        for (uint64_t i = 0; i < n; ++i) counts.insert(counts.end(), {nodes, 20});
        auto request = std::make_unique<v1::AppendRequest>();
        request->set_dataset(name);
        request->mutable_graphs()->mutable_sizes()->set_num_graphs(n);
        request->mutable_graphs()->mutable_sizes()->set_first_id(num_graphs);
        request->mutable_graphs()->mutable_sizes()->set_counts(Uint32sToWire(counts));
        ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
        ASSERT_THAT(handler.Next(), IsOk());
        num_graphs += n;
      }
    };
    const uint64_t id = store_.Get(name)->id;
    DatasetDrifts first(nullptr);
    AppendHandler before(&store_, nullptr, nullptr, &first);
    append(before, 10, stored);
    DatasetDrifts second(nullptr);
    AppendHandler after(&store_, nullptr, nullptr, &second);
    // What is not stored yet of a reference.
    const uint64_t changes_at =
        stored < DatasetDrifts::kGraphs ? stored + DatasetDrifts::kGraphs : stored;
    append(after, 10, changes_at);
    v1::DatasetDrift drift;
    EXPECT_FALSE(second.ToWire(id, schema, drift)) << stored;
    append(after, 11, changes_at + 3 * DatasetDrifts::kGraphs);
    ASSERT_TRUE(second.ToWire(id, schema, drift)) << stored;
    EXPECT_EQ(drift.num_changes(), 1U);
    EXPECT_GE(drift.found_graph(), changes_at);
    EXPECT_LE(drift.found_graph(), changes_at + 2 * kChunk);
    EXPECT_EQ(drift.components(0).reference_mean(), 10);
    EXPECT_EQ(drift.components(0).mean(), 11);
  }
}

// The data sets that were appended to last are watched, as far as watches have room.
TEST_F(AppendHandlerTest, WatchesTakeASmallShareOfTheMemory) {
  constexpr uint64_t kWatches = 2;
  const uint64_t bytes = 2 * DriftDetector::BytesFor(2);
  for (const uint64_t share : {kWatches * bytes, bytes / 2}) {
    MemoryBudget memory(DatasetDrifts::kShareOfMemory * share);
    DatasetDrifts drifts(&memory);
    uint64_t watches = 0;
    for (const std::string name : {"a", "b", "c", "d"}) {
      if (!store_.Get(name).ok()) Create(name);
      AppendHandler handler(&store_, nullptr, nullptr, &drifts);
      ASSERT_THAT(Append(handler, absl::StrCat("dataset: '", name, "'", kOneGraph)), IsOk());
      watches = std::min(watches + 1, std::max<uint64_t>(share / bytes, 1));
      EXPECT_EQ(memory.held(), watches * bytes);
    }
    drifts.Forget(store_.Get("a")->id);
    EXPECT_EQ(memory.held(), watches * bytes);
    drifts.Forget(store_.Get("d")->id);
    EXPECT_EQ(memory.held(), (watches - 1) * bytes);
  }
}

// Nothing is watched where there is no room, or nothing to compare.
TEST_F(AppendHandlerTest, AWatchNeedsMemoryAndComponents) {
  Create("d");
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, store_.Get("d"));
  const uint64_t bytes = 2 * DriftDetector::BytesFor(2);
  for (const bool has_room : {false, true}) {
    MemoryBudget memory(has_room ? bytes : bytes - 1);
    DatasetDrifts drifts(&memory);
    for (int i = 0; i < 2; ++i) drifts.Open(info, store_);
    EXPECT_EQ(memory.held(), has_room ? bytes : 0);
    // Sizes of other graphs are not observed.
    drifts.Observe(info.id, *SizeTable::WithConsecutiveIds(1, 3, {1, 2, 3}, 0), 0);
  }
  MemoryBudget memory(uint64_t{1} << 30);
  DatasetDrifts drifts(&memory);
  ASSERT_THAT(
      store_.Create("none", GraphSchema::Create(SizeSchema::Create({}).value(), {}).value(), {}),
      IsOk());
  drifts.Open(*store_.Get("none"), store_);
  EXPECT_EQ(memory.held(), 0U);
}

TEST_F(AppendHandlerTest, ThoseThatWereUsedLastAreWatched) {
  MemoryBudget memory(uint64_t{1} << 50);
  DatasetDrifts drifts(&memory);
  const uint64_t bytes = 2 * DriftDetector::BytesFor(2);
  std::vector<DatasetInfo> infos;
  for (size_t i = 0; i <= DatasetDrifts::kMostDatasets; ++i) {
    const std::string name = absl::StrCat("d", i);
    Create(name);
    infos.push_back(*store_.Get(name));
    if (i == DatasetDrifts::kMostDatasets) {
      drifts.Observe(infos[0].id, *SizeTable::WithConsecutiveIds(1, 2, {1, 2}, 0), 0);
    }
    drifts.Open(infos.back(), store_);
  }
  EXPECT_EQ(memory.held(), DatasetDrifts::kMostDatasets * bytes);
  // The one that was not used the longest had to go.
  drifts.Forget(infos[1].id);
  EXPECT_EQ(memory.held(), DatasetDrifts::kMostDatasets * bytes);
  drifts.Forget(infos[0].id);
  EXPECT_EQ(memory.held(), (DatasetDrifts::kMostDatasets - 1) * bytes);
}

// A sealed data set is appended to no more, so its watch takes nothing.
TEST_F(AppendHandlerTest, WatchesEndWithTheSeal) {
  MemoryBudget memory(uint64_t{1} << 30);
  DatasetDrifts drifts(&memory);
  const uint64_t bytes = 2 * DriftDetector::BytesFor(2);
  for (const std::string name : {"a", "b"}) {
    Create(name);
    AppendHandler handler(&store_, nullptr, nullptr, &drifts);
    ASSERT_THAT(Append(handler, absl::StrCat("dataset: '", name, "'", kOneGraph)), IsOk());
  }
  EXPECT_EQ(memory.held(), 2 * bytes);
  drifts.EndWatch(store_.Get("a")->id);
  EXPECT_EQ(memory.held(), bytes);
  drifts.EndWatch(store_.Get("a")->id);
  EXPECT_EQ(memory.held(), bytes);
  v1::DatasetDrift drift;
  EXPECT_FALSE(drifts.ToWire(store_.Get("a")->id, SizeSchema::NodesAndEdges(), drift));
  // What comes late is not observed.
  AppendHandler late(&store_, nullptr, nullptr, &drifts);
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo sealed, store_.Seal("b"));
  drifts.EndWatch(sealed.id);
  drifts.Open(sealed, store_);
  drifts.Observe(sealed.id, *SizeTable::WithConsecutiveIds(1, 2, {1, 2}, 0), 1);
  EXPECT_EQ(memory.held(), 0);
}

// The graphs that are there before the first append are the reference, if there is room to read
// their sizes.
TEST_F(AppendHandlerTest, TheSizesThatAWatchBeginsWithAreHeldWhileTheyAreRead) {
  Create("d");
  std::vector<uint32_t> counts;
  for (uint32_t i = 0; i < 2 * DatasetDrifts::kGraphs; ++i) counts.insert(counts.end(), {i, 20});
  auto request = std::make_unique<v1::AppendRequest>();
  request->set_dataset("d");
  request->mutable_graphs()->mutable_sizes()->set_num_graphs(counts.size() / 2);
  request->mutable_graphs()->mutable_sizes()->set_counts(Uint32sToWire(counts));
  ASSERT_THAT(handler_.Accept(std::move(request)), IsOk());
  ASSERT_THAT(handler_.Next(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, store_.Get("d"));
  const uint64_t of_watch = 2 * DriftDetector::BytesFor(2);
  const uint64_t of_sizes = store_.GetHistogram("d")->bytes();
  for (const bool has_room : {false, true}) {
    MemoryBudget memory(of_watch + of_sizes - (has_room ? 0 : 1));
    DatasetDrifts drifts(&memory);
    drifts.Open(info, store_);
    EXPECT_EQ(memory.held(), has_room ? of_watch : 0);
  }
}

// A request that comes late stores nothing in a data set that was made anew under the name.
TEST_F(AppendHandlerTest, AnIdIsOfOneDataSet) {
  Create("d");
  const std::string late =
      absl::StrCat("dataset: 'd' dataset_id: ", store_.Get("d")->id,
                   " producer_sequence { producer: 'p' sequence: 5 }", kOneGraph);
  ASSERT_THAT(Append(late), IsOk());
  ASSERT_THAT(Append(late), IsOk());
  EXPECT_THAT(Append(std::string("dataset_id: 1234 ") + kOneGraph),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dataset_id: 1234")));
  ASSERT_THAT(store_.Delete("d"), IsOk());
  Create("d");
  AppendHandler other(&store_);
  EXPECT_THAT(Append(other, late), StatusIs(absl::StatusCode::kNotFound, HasSubstr("its id is")));
  AppendHandler right(&store_);
  PH_ASSERT_OK_AND_ASSIGN(
      const v1::AppendResponse first,
      Append(right, absl::StrCat("dataset: 'd' dataset_id: ", store_.Get("d")->id,
                                 " producer_sequence { producer: 'p' sequence: 1 }", kOneGraph)));
  EXPECT_EQ(first.num_appended(), 1U);
}

TEST_F(AppendHandlerTest, OnlyTheFirstRequestMayComeWithoutGraphsAndStoresNothing) {
  Create("d");
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse response,
                          Append("dataset: 'd' producer_sequence { producer: 'p' sequence: 9 }"));
  EXPECT_EQ(response.producer_sequence().sequence(), 9U);
  EXPECT_EQ(response.num_appended(), 0U);
  EXPECT_FALSE(response.is_repetition());
  EXPECT_THAT(Append(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("graphs: unset")));
  // The sequence was not taken.
  PH_ASSERT_OK_AND_ASSIGN(
      const v1::AppendResponse first,
      Append(std::string("producer_sequence { producer: 'p' sequence: 1 }") + kOneGraph));
  EXPECT_EQ(first.num_appended(), 1U);
}

TEST_F(AppendHandlerTest, TheFirstRequestIsCheckedEvenWithoutGraphs) {
  Create("d");
  EXPECT_THAT(Append("dataset: 'd' group_ids: '12345678'"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("group_ids: 8 bytes")));
  AppendHandler other(&store_);
  EXPECT_THAT(
      Append(other, std::string("dataset: 'd' producer_sequence { producer: 'p' }") + kOneGraph),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sequence 0")));
}

TEST_F(AppendHandlerTest, TheFirstRequestMayAskForTheProducer) {
  Create("d");
  const std::string asking = "dataset: 'd' producer_sequence { producer: 'p' }";
  for (const uint64_t next : {1, 2}) {
    AppendHandler handler(&store_);
    PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse answer, Append(handler, asking));
    EXPECT_EQ(answer.producer_state().next_sequence(), next);
    EXPECT_EQ(answer.producer_state().first_remembered_sequence(), 1U);
    PH_ASSERT_OK_AND_ASSIGN(
        const v1::AppendResponse stored,
        Append(handler,
               std::string("producer_sequence { producer: 'p' sequence: 1 }") + kOneGraph));
    EXPECT_EQ(stored.is_repetition(), next == 2);
    EXPECT_FALSE(stored.has_producer_state());
  }
}

TEST_F(AppendHandlerTest, GraphsWithoutIdsAreNumberedWithinTheStream) {
  Create("d");
  ASSERT_THAT(Append(std::string("dataset: 'd'") + kTwoGraphs), IsOk());
  ASSERT_THAT(
      Append(R"(graphs { sizes { num_graphs: 1 first_id: 77 counts: "\1\0\0\0\1\0\0\0" } })"),
      IsOk());
  ASSERT_THAT(Append(kTwoGraphs), IsOk());
  EXPECT_THAT(StoredIds("d"), ElementsAre(0U, 1U, 77U, 3U, 4U));
  // Another stream begins anew.
  AppendHandler other(&store_);
  ASSERT_THAT(Append(other, std::string("dataset: 'd'") + kOneGraph), IsOk());
  EXPECT_EQ(StoredIds("d").back(), 0U);
}

// A stream that is sent again from its start gives every graph the number that it had.
TEST_F(AppendHandlerTest, ARepetitionIsAnsweredNotStoredAndKeepsTheNumbering) {
  Create("d");
  const std::string first =
      std::string("dataset: 'd' producer_sequence { producer: 'p' sequence: 1 }") + kTwoGraphs;
  const std::string second =
      std::string("producer_sequence { producer: 'p' sequence: 2 }") + kOneGraph;
  ASSERT_THAT(Append(first), IsOk());
  AppendHandler again(&store_);
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse repetition, Append(again, first));
  EXPECT_TRUE(repetition.is_repetition());
  EXPECT_EQ(repetition.num_appended(), 0U);
  EXPECT_EQ(repetition.num_graphs(), 2U);
  EXPECT_EQ(repetition.producer_sequence().sequence(), 1U);
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse stored, Append(again, second));
  EXPECT_FALSE(stored.is_repetition());
  EXPECT_EQ(stored.num_appended(), 1U);
  EXPECT_EQ(stored.num_graphs(), 3U);
  EXPECT_THAT(StoredIds("d"), ElementsAre(0U, 1U, 2U));
}

TEST_F(AppendHandlerTest, ASealedDataSetTakesRepetitionsOnly) {
  Create("d");
  const std::string request =
      std::string("dataset: 'd' producer_sequence { producer: 'p' sequence: 1 }") + kOneGraph;
  ASSERT_THAT(Append(request), IsOk());
  ASSERT_THAT(store_.Seal("d"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const v1::AppendResponse repetition, Append(request));
  EXPECT_TRUE(repetition.is_repetition());
  EXPECT_THAT(Append(kOneGraph), StatusIs(absl::StatusCode::kFailedPrecondition, _));
}

TEST_F(AppendHandlerTest, GroupIdsAreStored) {
  Create("g", /*grouped=*/true);
  ASSERT_THAT(Append(std::string("dataset: 'g' group_ids: '\\5\\0\\0\\0\\0\\0\\0\\0'") + kOneGraph),
              IsOk());
  EXPECT_THAT(store_.OpenReader("g").value()->group_ids(), ElementsAre(5U));
  EXPECT_THAT(Append(std::string("group_ids: '\\5\\0\\0\\0\\0\\0\\0\\0'") + kTwoGraphs),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("group_ids: 8 bytes, 2 graphs take 16")));
  EXPECT_THAT(Append(kOneGraph), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

TEST_F(AppendHandlerTest, AMalformedChunkIsRefusedWhole) {
  Create("d");
  ASSERT_THAT(Append("dataset: 'd'"), IsOk());
  EXPECT_THAT(Append("graphs { sizes { num_graphs: 2 counts: 'abcd' } }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sizes.counts: 4 bytes")));
  EXPECT_THAT(Append(std::string("graphs { tensors { name: 'x' } }")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x' is not in the schema")));
  EXPECT_EQ(store_.Get("d")->num_graphs, 0U);
}

// A malformed example takes its number, and its group id, with it.
TEST_F(AppendHandlerTest, WhatIsLeftOutHasNoGroupAndKeepsItsNumber) {
  DatasetOptions options;
  options.grouped = true;
  ASSERT_THAT(store_.Create("g", GraphSchema::Create(SizeSchema::Create({"n"}).value(), {}).value(),
                            options),
              IsOk());
  AppendHandler handler(&store_, nullptr, nullptr, nullptr, nullptr, TfgnnFormat());
  const auto groups = [](const std::vector<uint64_t>& ids) {
    return absl::StrCat(" group_ids: '", absl::CHexEscape(Uint64sToWire(ids)), "'");
  };
  const std::string malformed = "examples: '\\x0a\\x7f' ";
  const std::string sound = "examples: '' ";
  PH_ASSERT_OK_AND_ASSIGN(
      const v1::AppendResponse first,
      Append(handler, absl::StrCat("dataset: 'g' examples { skip_malformed: true ", malformed,
                                   sound, malformed, sound, " }", groups({5, 6, 7, 8}))));
  EXPECT_EQ(first.num_appended(), 2U);
  EXPECT_EQ(first.num_skipped(), 2U);
  ASSERT_EQ(first.skipped_size(), 2);
  EXPECT_EQ(first.skipped(0).example(), 0U);
  EXPECT_EQ(first.skipped(1).example(), 2U);
  EXPECT_EQ(first.skipped(1).graph_id(), 2U);
  EXPECT_NE(first.skipped(1).message(), "");
  ASSERT_THAT(Append(handler, absl::StrCat("examples { ", sound, " }", groups({9}))), IsOk());
  EXPECT_THAT(StoredIds("g"), ElementsAre(1U, 3U, 4U));
  EXPECT_THAT(store_.OpenReader("g").value()->group_ids(), ElementsAre(6U, 8U, 9U));
  // All are counted, and some are told.
  std::string many;
  for (size_t i = 0; i <= LeftOut::kMaxTold; ++i) many += malformed;
  PH_ASSERT_OK_AND_ASSIGN(
      const v1::AppendResponse last,
      Append(handler, absl::StrCat("examples { skip_malformed: true ", many, " }")));
  EXPECT_EQ(last.num_skipped(), LeftOut::kMaxTold + 1);
  EXPECT_EQ(last.skipped_size(), static_cast<int>(LeftOut::kMaxTold));
  EXPECT_THAT(Append(handler, absl::StrCat("graphs {} examples { ", sound, " }")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "examples: there is a chunk of graphs beside them"));
  EXPECT_THAT(Append(handler, absl::StrCat("examples { ", sound, " }", groups({9, 9}))),
              StatusIs(absl::StatusCode::kInvalidArgument, "group_ids: 16 bytes, 1 graphs take 8"));
  EXPECT_THAT(Append(handler, absl::StrCat("examples { ", malformed, " }")),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
}

}  // namespace
}  // namespace packhouse
