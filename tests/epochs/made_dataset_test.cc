// Graphs that the server makes, as a data set.
#include "service/engine/epochs/made_dataset.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// The same graphs each time: with a byte for each node.
class FixedMaker final : public GraphMaker {
 public:
  const GraphSchema& schema() const override { return schema_; }
  uint64_t num_graphs() const override { return 10; }
  uint64_t graphs_per_append() const override { return 3; }
  absl::StatusOr<GraphChunk> Make(uint64_t begin, uint64_t end) override {
    if (!failure.ok()) return failure;
    std::vector<uint32_t> counts;
    auto rows = std::make_shared<std::string>();
    for (uint64_t i = begin; i < end; ++i) {
      counts.push_back(static_cast<uint32_t>(1 + i % 3));
      counts.push_back(static_cast<uint32_t>((i + more_edges) % 2));
      rows->append(1 + i % 3, static_cast<char>(first_byte + i));
    }
    PH_ASSIGN_OR_RETURN(SizeTable sizes,
                        SizeTable::WithConsecutiveIds(end - begin, 2, std::move(counts), begin));
    return GraphChunk::Create(&schema_, std::move(sizes), {*rows}, rows);
  }

  uint64_t more_edges = 0;
  char first_byte = 'a';
  absl::Status failure;

 private:
  const GraphSchema schema_ =
      *GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt8, {}, 0, {}, {}}});
};

// Somebody deletes the data set while it is made, and creates another one with its name: nothing
// gets into that one, and it is not sealed.
TEST(MadeDatasetTest, ADataSetThatIsCreatedAnewIsNotTheOneThatIsMade) {
  for (uint64_t at = 3; at <= 10; at += at == 9 ? 1 : 3) {
    for (const bool is_created_anew : {false, true}) {
      SCOPED_TRACE(testing::Message() << "at=" << at << " anew=" << is_created_anew);
      FixedMaker maker;
      MemoryDatasetStore store(uint64_t{1} << 30);
      const auto made =
          MakeDataset(maker, {"set", 0, "maker"}, store, Making(), [&](uint64_t done) {
            if (done != at) return;
            EXPECT_THAT(store.Delete("set"), IsOk());
            if (!is_created_anew) return;
            EXPECT_THAT(store.Create("set", maker.schema(), {}), IsOk());
          });
      EXPECT_THAT(made, StatusIs(absl::StatusCode::kNotFound, testing::_));
      if (!is_created_anew) continue;
      PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo anew, store.Get("set"));
      EXPECT_EQ(anew.num_graphs, 0U);
      EXPECT_EQ(anew.state, DatasetState::kOpen);
    }
  }
}

TEST(MadeDatasetTest, AppendsHaveAboutFourMegabytes) {
  EXPECT_EQ(GraphsPerAppend(0, 100), 1U);
  EXPECT_EQ(GraphsPerAppend(10, 10 * 4096 - 1), 1024U);
  EXPECT_EQ(GraphsPerAppend(10, 9), 4096U);
  EXPECT_EQ(GraphsPerAppend(1, uint64_t{1} << 30), 1U);
}

// A call that was cut off is gone on with; one that is whole is not made again.
TEST(MadeDatasetTest, WhatIsThereStaysAndTheRestFollows) {
  for (const uint64_t stops_at : {3, 6, 9, 10}) {
    FixedMaker maker;
    MemoryDatasetStore store(uint64_t{1} << 30);
    std::vector<uint64_t> told;
    bool is_unwanted = false;
    const auto make = [&] {
      return MakeDataset(maker, {"set", 500'000, "maker"}, store,
                         Making(nullptr, [&] { return is_unwanted; }), [&](uint64_t done) {
                           told.push_back(done);
                           is_unwanted = done == stops_at;
                         });
    };
    const absl::Status first = make().status();
    EXPECT_EQ(first.code(), stops_at == 10 ? absl::StatusCode::kOk : absl::StatusCode::kCancelled);
    is_unwanted = false;
    PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, make());
    EXPECT_THAT(told, testing::ElementsAre(3, 6, 9, 10));
    EXPECT_EQ(info.state, DatasetState::kSealed);
    EXPECT_EQ(info.num_graphs, 10U);
    EXPECT_EQ(info.num_records, 4U);
    EXPECT_EQ(info.options.max_bytes, 500'000U);
    EXPECT_THAT(make(), IsOk());
    EXPECT_EQ(told.size(), 4U);
    PH_ASSERT_OK_AND_ASSIGN(const ProducerHistory history,
                            store.GetProducer({"set", info.id}, "maker"));
    EXPECT_EQ(history.last(), 4U);
  }
}

TEST(MadeDatasetTest, GraphsOfOthersAreNotGoneOnWith) {
  const auto refused = [](const std::function<void(FixedMaker&, DatasetStore&)>& before) {
    FixedMaker maker;
    MemoryDatasetStore store(uint64_t{1} << 30);
    EXPECT_THAT(store.Create("set", maker.schema(), {}), IsOk());
    before(maker, store);
    return MakeDataset(maker, {"set", 0, "maker"}, store, Making(), [](uint64_t) {}).status();
  };
  const auto append = [](FixedMaker& maker, DatasetStore& store, uint64_t begin, uint64_t end) {
    EXPECT_THAT(store.Append("set", maker.Make(begin, end).value(), {}, std::nullopt), IsOk());
  };
  const auto foreign = [](const std::string& why) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set 'set': has graphs that this request has not made: ", why));
  };
  EXPECT_EQ(refused([&](FixedMaker& maker, DatasetStore& store) { append(maker, store, 0, 2); }),
            foreign("it has 2 graphs, appends would have 3 each, of 10"));
  EXPECT_EQ(refused([&](FixedMaker& maker, DatasetStore& store) { append(maker, store, 0, 12); }),
            foreign("it has 12 graphs, appends would have 3 each, of 10"));
  EXPECT_EQ(refused([&](FixedMaker& maker, DatasetStore& store) {
              append(maker, store, 0, 3);
              EXPECT_THAT(store.Seal("set"), IsOk());
            }),
            foreign("it is sealed with 3 graphs of 10"));
  for (const auto& change : std::vector<std::function<void(FixedMaker&)>>{
           [](FixedMaker& maker) { maker.first_byte = 'b'; },
           [](FixedMaker& maker) { maker.more_edges = 1; }}) {
    EXPECT_EQ(refused([&](FixedMaker&, DatasetStore& store) {
                FixedMaker other;
                change(other);
                append(other, store, 0, 3);
              }),
              foreign("graph 0 differs"));
    // The first is its own.
    EXPECT_EQ(refused([&](FixedMaker& maker, DatasetStore& store) {
                append(maker, store, 0, 2);
                FixedMaker other;
                change(other);
                append(other, store, 2, 3);
              }),
              foreign("graph 2 differs"));
  }
}

// Each question to the store, and the maker, may fail.
TEST(MadeDatasetTest, ErrorsAreTold) {
  class RefusingStore final : public ForwardingDatasetStore {
   public:
    using ForwardingDatasetStore::ForwardingDatasetStore;
    std::string refused;

    absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override {
      if (refused == "get") return absl::UnavailableError(refused);
      return store()->Get(name);
    }
    absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                       const DatasetOptions& options) override {
      if (refused == "create") return absl::UnavailableError(refused);
      return store()->Create(name, schema, options);
    }
    absl::StatusOr<AppendResult> AppendTo(
        const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
        const std::optional<ProducerSequence>& producer) override {
      if (refused == "append") return absl::UnavailableError(refused);
      return store()->AppendTo(target, chunk, group_ids, producer);
    }
    absl::StatusOr<DatasetInfo> Seal(const Target& target) override {
      if (refused == "seal") return absl::UnavailableError(refused);
      return store()->Seal(target);
    }
    absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
        absl::string_view name) const override {
      if (refused == "open") return absl::UnavailableError(refused);
      return store()->OpenReader(name);
    }
  };
  for (const std::string refused : {"get", "create", "append", "seal", "open", "make"}) {
    SCOPED_TRACE(refused);
    FixedMaker maker;
    MemoryDatasetStore memory(uint64_t{1} << 30);
    RefusingStore store(&memory);
    if (refused == "open") {
      EXPECT_THAT(memory.Create("set", maker.schema(), {}), IsOk());
      EXPECT_THAT(memory.Append("set", maker.Make(0, 3).value(), {}, std::nullopt), IsOk());
    }
    store.refused = refused;
    if (refused == "make") maker.failure = absl::UnavailableError(refused);
    EXPECT_EQ(MakeDataset(maker, {"set", 0, "maker"}, store, Making(), [](uint64_t) {}).status(),
              absl::UnavailableError(refused));
  }
}

}  // namespace
}  // namespace packhouse
