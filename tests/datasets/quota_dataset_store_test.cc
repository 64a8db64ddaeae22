// What quotas refuse, and that they free again what was deleted.
#include "service/stores/datasets/quota_dataset_store.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

class QuotaDatasetStoreTest : public ::testing::Test {
 protected:
  absl::Status Create(const std::string& name) { return store_.Create(name, schema_, {}).status(); }
  absl::Status Append(const std::string& name) {
    Random random(1);
    return store_.Append(name, RandomChunk(random, &schema_, 50, 9, 0), {}, std::nullopt).status();
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  std::map<std::string, Quotas> quotas_;
  const QuotasOf quotas_of_ = [this](absl::string_view where) {
    const auto found = quotas_.find(std::string(where));
    return found == quotas_.end() ? Quotas() : found->second;
  };
  MemoryDatasetStore inner_{uint64_t{1} << 30};
  DiskQuota disk_{quotas_of_};
  QuotaDatasetStore store_{&inner_, quotas_of_, &disk_};
};

TEST_F(QuotaDatasetStoreTest, CountsDataSetsOfANamespaceAlone) {
  quotas_["a"].datasets = 2;
  quotas_["default"].datasets = 1;
  for (const std::string name : {"a/1", "a/2", "ab/1", "b/1", "x"})
    EXPECT_THAT(Create(name), IsOk());
  const absl::Status third = Create("a/3");
  EXPECT_EQ(third, absl::ResourceExhaustedError(
                       "namespace 'a': the quota 'datasets' is 2, it would become 3"));
  EXPECT_EQ(Create("y").code(), absl::StatusCode::kResourceExhausted);
  // A retry of what worked is told so.
  EXPECT_EQ(Create("a/2").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Create("b/2"), IsOk());
  EXPECT_THAT(store_.Delete("a/1"), IsOk());
  EXPECT_THAT(Create("a/3"), IsOk());
}

TEST_F(QuotaDatasetStoreTest, BoundsBytesOfANamespace) {
  EXPECT_THAT(Create("a/1"), IsOk());
  EXPECT_THAT(Create("a/2"), IsOk());
  EXPECT_THAT(Create("b/1"), IsOk());
  EXPECT_THAT(Append("a/1"), IsOk());
  const uint64_t bytes = inner_.Get("a/1")->num_bytes;
  ASSERT_GT(bytes, 0);
  quotas_["a"].disk_bytes = 3 * bytes;
  int appended = 1;
  absl::Status last;
  while ((last = Append("a/2")).ok()) ++appended;
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(last.message()),
              HasSubstr(absl::StrCat("namespace 'a': the quota 'disk_bytes' is ", 3 * bytes)));
  EXPECT_LE(inner_.Get("a/1")->num_bytes + inner_.Get("a/2")->num_bytes, 3 * bytes);
  EXPECT_GE(appended, 2);
  EXPECT_THAT(Append("b/1"), IsOk());
  EXPECT_THAT(store_.Delete("a/2"), IsOk());
  EXPECT_THAT(Append("a/1"), IsOk());
}

// What other stores have of the namespace counts too.
TEST_F(QuotaDatasetStoreTest, SharesTheDiskWithOtherStores) {
  EXPECT_THAT(Create("a/1"), IsOk());
  EXPECT_THAT(Append("a/1"), IsOk());
  const uint64_t bytes = inner_.Get("a/1")->num_bytes;
  quotas_["a"].disk_bytes = 3 * bytes;
  uint64_t elsewhere = 3 * bytes;
  disk_.Add([&](absl::string_view where) -> absl::StatusOr<uint64_t> {
    return where == "a" ? elsewhere : 0;
  });
  EXPECT_EQ(Append("a/1").code(), absl::StatusCode::kResourceExhausted);
  elsewhere = bytes / 2;
  EXPECT_THAT(Append("a/1"), IsOk());
  quotas_["a"].disk_bytes = 10 * bytes;
  EXPECT_THAT(Create("a/2"), IsOk());
  EXPECT_THAT(Append("a/2"), IsOk());
  const auto all = store_.CountAll();
  EXPECT_EQ(all->at("a").datasets, 2);
  EXPECT_EQ(all->at("a").bytes, inner_.Get("a/1")->num_bytes + inner_.Get("a/2")->num_bytes);
}

// All pages of the list count, and where it cannot be read nothing is let in.
TEST_F(QuotaDatasetStoreTest, ALongListIsCountedToItsEnd) {
  for (int i = 0; i < 1001; ++i) {
    ASSERT_THAT(inner_.Create(absl::StrCat("set", i), schema_, {}), IsOk());
  }
  quotas_["default"].datasets = 1002;
  EXPECT_THAT(Create("a/1"), IsOk());
  EXPECT_THAT(Create("x"), IsOk());
  EXPECT_EQ(Create("y"), absl::ResourceExhaustedError("namespace 'default': the quota 'datasets' "
                                                      "is 1002, it would become 1003"));
  EXPECT_EQ(store_.CountAll()->at("default").datasets, 1002);

  class Unlisted final : public ForwardingDatasetStore {
   public:
    using ForwardingDatasetStore::ForwardingDatasetStore;
    absl::StatusOr<DatasetList> List(size_t, absl::string_view) const override {
      return absl::UnavailableError("no list");
    }
  };
  Unlisted unlisted(&inner_);
  DiskQuota disk(quotas_of_);
  QuotaDatasetStore store(&unlisted, quotas_of_, &disk);
  const absl::Status no_list = absl::UnavailableError("no list");
  EXPECT_EQ(store.Create("y", schema_, {}).status(), no_list);
  EXPECT_EQ(store.CountAll().status(), no_list);
  quotas_["default"].disk_bytes = uint64_t{1} << 30;
  Random random(1);
  EXPECT_EQ(store.Append("x", RandomChunk(random, &schema_, 3, 9, 0), {}, std::nullopt).status(),
            no_list);
}

// Of each graph count its tensors, its id and its sizes.
TEST_F(QuotaDatasetStoreTest, AnAppendCountsWhatItTakes) {
  EXPECT_THAT(Create("a/1"), IsOk());
  Random random(1);
  const uint64_t bytes = RandomChunk(random, &schema_, 50, 9, 0).num_bytes() + 50 * (8 + 2 * 4);
  quotas_["a"].disk_bytes = bytes - 1;
  EXPECT_THAT(Append("a/1"), StatusIs(absl::StatusCode::kResourceExhausted,
                                      HasSubstr(absl::StrCat("become ", bytes))));
  quotas_["a"].disk_bytes = bytes;
  EXPECT_THAT(Append("a/1"), IsOk());
}

}  // namespace
}  // namespace packhouse
