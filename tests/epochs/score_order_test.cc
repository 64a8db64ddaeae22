// Epochs whose batches come by a score of their graphs: which graphs come when, what stays as in a
// shuffle, and what is refused.
#include "service/engine/epochs/score_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kTensorY = 2;

// Of few sizes, so that many graphs have the same; in groups of about ten.
DatasetWorld& ScoreWorld() {
  static DatasetWorld* const world = [] {
    auto* made = new DatasetWorld(900, 4, 7, 90);
    made->Seal();
    return made;
  }();
  return *world;
}

EpochRequest ByScore(uint32_t num_buckets, bool descending = false) {
  EpochRequest request = DatasetWorld::Request({60, 70, 24});
  request.by_score = ByScoreRequest{kTensorY, 0, descending, num_buckets};
  return request;
}

std::shared_ptr<const PreparedEpoch> PreparedByScore(const EpochRequest& request) {
  EpochBounds bounds;
  bounds.planner_steps = 100'000;
  EpochCatalog catalog(&ScoreWorld().store(), bounds);
  auto epoch = catalog.Prepare(request);
  EXPECT_THAT(epoch, IsOk());
  return epoch.ok() ? *epoch : nullptr;
}

// What a batch is made of: an item's size, and its score, from what is stored.
using Scored = std::pair<std::vector<uint32_t>, double>;

double ScoreOf(const DatasetReader& reader, const ByScoreRequest& request, uint32_t graph) {
  const StoredGraph stored = reader.Graph(graph).value();
  if (!request.tensor) return static_cast<double>(stored.chunk->count(stored.index, 0));
  int64_t y;
  std::memcpy(&y, stored.chunk->rows(stored.index, kTensorY).data(), sizeof(y));
  return static_cast<double>(y);
}

// By rank group and batch.
std::vector<std::vector<std::vector<Scored>>> ScoredBatchesOf(const PreparedEpoch& epoch,
                                                              const ByScoreRequest& request) {
  const EpochPlan& plan = epoch.plan();
  const auto batches = plan.BatchesOf({epoch.identity().seed, epoch.identity().key.epoch}, {});
  std::vector<std::vector<std::vector<Scored>>> all;
  uint64_t number = 0;
  for (size_t i = 0; i < plan.num_rank_groups(); ++i) {
    all.emplace_back(plan.num_batches(i));
    for (std::vector<Scored>& batch : all.back()) {
      for (const uint32_t item : (*batches)->batch(number++)) {
        std::vector<uint32_t> graphs = {plan.pieces() != nullptr ? plan.pieces()->GraphOf(item)
                                                                 : item};
        if (plan.groups()) graphs = plan.groups()->GraphsOf({&item, 1});
        double sum = 0;
        for (const uint32_t graph : graphs) sum += ScoreOf(plan.reader(), request, graph);
        const auto size = plan.items().tuple(item);
        batch.emplace_back(std::vector<uint32_t>(size.begin(), size.end()),
                           sum / static_cast<double>(graphs.size()));
      }
    }
  }
  return all;
}

// Of each rank group, the sizes of each batch's items, in whatever order.
std::vector<std::vector<std::vector<std::vector<uint32_t>>>> SizesByBatch(
    const std::vector<std::vector<std::vector<Scored>>>& groups) {
  std::vector<std::vector<std::vector<std::vector<uint32_t>>>> all;
  for (const auto& group : groups) {
    all.emplace_back();
    for (const auto& batch : group) {
      all.back().emplace_back();
      for (const Scored& item : batch) all.back().back().push_back(item.first);
      std::sort(all.back().back().begin(), all.back().back().end());
    }
    std::sort(all.back().begin(), all.back().end());
  }
  return all;
}

std::vector<double> AllScores(const std::vector<std::vector<std::vector<Scored>>>& groups) {
  std::vector<double> scores;
  for (const auto& group : groups) {
    for (const auto& batch : group) {
      for (const Scored& item : batch) scores.push_back(item.second);
    }
  }
  std::sort(scores.begin(), scores.end());
  return scores;
}

double MeanOf(const std::vector<Scored>& batch) {
  double sum = 0;
  for (const Scored& item : batch) sum += item.second;
  return sum / static_cast<double>(batch.size());
}

std::vector<std::pair<std::string, EpochRequest>> ScoredRequests() {
  std::vector<std::pair<std::string, EpochRequest>> requests;
  const auto add = [&](std::string name, uint32_t num_buckets = 5) -> EpochRequest& {
    requests.emplace_back(std::move(name), ByScore(num_buckets));
    return requests.back().second;
  };
  add("buckets");
  add("one bucket", 1);
  add("each batch a bucket", 0);
  add("more buckets than batches", 1U << 31);
  add("descending").by_score->descending = true;
  add("descending batches", 0).by_score->descending = true;
  add("a component").by_score->tensor.reset();
  add("batches by a component", 0).by_score->tensor.reset();
  add("not mixed").mixing.is_off = true;
  add("without padding").padding = Padding::kNone;
  add("sizes").whole_graphs = false;
  add("several shapes").rank_groups[0].shapes.push_back({30, 40, 24});
  add("rank groups").rank_groups.push_back({{{30, 40, 24}}, std::nullopt, 2});
  EpochRequest& groups = add("groups");
  groups.grouped = true;
  groups.rank_groups[0].shapes = {{200, 200, 64}};
  EpochRequest& subset = add("a subset");
  subset.subset.emplace();
  subset.subset->ranges.emplace_back(1000, 500);
  add("with replacement").draw = WeightedDraw{{}, 600, true};
  EpochRequest& pieces = add("pieces");
  pieces.padding = Padding::kNone;
  pieces.cuts_oversize = true;
  pieces.rank_groups[0].shapes = {{60, 5, 24}};
  EpochRequest& least = add("min_rows");
  least.rank_groups[0].shapes = {{120, 160, 24}};
  least.padding = Padding::kTfgnn;
  least.min_rows = MinRows({3, 5});
  return requests;
}

// Each item once, in batches of the sizes of a shuffle, with the same bytes each time. Lower scores
// of a size are in earlier buckets.
TEST(ScoreOrderTest, BatchesAreThoseOfAShuffleAndScoresAscendByBucket) {
  for (const auto& [name, request] : ScoredRequests()) {
    SCOPED_TRACE(name);
    EpochRequest shuffled_request = request;
    shuffled_request.by_score = std::nullopt;
    const auto shuffled = PreparedByScore(shuffled_request);
    const auto epoch = PreparedByScore(request);
    ASSERT_TRUE(shuffled != nullptr && epoch != nullptr);
    EXPECT_EQ(epoch->plan().receipt(), shuffled->plan().receipt());
    const auto groups = ScoredBatchesOf(*epoch, *request.by_score);
    const auto drawn = ScoredBatchesOf(*shuffled, *request.by_score);
    EXPECT_EQ(SizesByBatch(groups), SizesByBatch(drawn));
    EXPECT_EQ(AllScores(groups), AllScores(drawn));
    EXPECT_EQ(groups, ScoredBatchesOf(*PreparedByScore(request), *request.by_score));
    EXPECT_NE(epoch->identity(), shuffled->identity());
    const double sign = request.by_score->descending ? -1 : 1;
    for (const auto& group : groups) {
      const size_t m = group.size();
      const size_t k = request.by_score->num_buckets == 0
                           ? m
                           : std::min<size_t>(request.by_score->num_buckets, m);
      ASSERT_GT(m, 5U);
      if (k == m) {
        EXPECT_TRUE(std::is_sorted(group.begin(), group.end(), [&](const auto& a, const auto& b) {
          return sign * MeanOf(a) < sign * MeanOf(b);
        }));
        continue;
      }
      std::map<std::vector<uint32_t>, double> most;
      for (size_t bucket = 0; bucket < k; ++bucket) {
        auto next = most;
        for (size_t b = bucket * m / k; b < (bucket + 1) * m / k; ++b) {
          for (const auto& [size, score] : group[b]) {
            if (const auto found = most.find(size); found != most.end()) {
              EXPECT_GE(sign * score, found->second);
            }
            const auto [entry, is_new] = next.try_emplace(size, sign * score);
            if (!is_new) entry->second = std::max(entry->second, sign * score);
          }
        }
        most = std::move(next);
      }
    }
  }
}

// "by score by v1" says by which rules. Who raises the version changes these, on purpose; nobody
// else does.
TEST(ScoreOrderTest, TheRulesOfAVersionGiveTheSameBatchesInEveryRelease) {
  std::map<std::string, uint32_t> checksums;
  for (const auto& [name, request] : ScoredRequests()) {
    checksums[name] = ChecksumOfGraphs(*PreparedByScore(request));
  }
  const std::map<std::string, uint32_t> expected = {{"a component", 985558251U},
                                                    {"a subset", 3608687120U},
                                                    {"batches by a component", 2287767055U},
                                                    {"buckets", 3319424600U},
                                                    {"descending", 2301939077U},
                                                    {"descending batches", 1111723607U},
                                                    {"each batch a bucket", 3035901706U},
                                                    {"groups", 2664908346U},
                                                    {"min_rows", 1915362289U},
                                                    {"more buckets than batches", 3035901706U},
                                                    {"not mixed", 306452356U},
                                                    {"one bucket", 1792913796U},
                                                    {"pieces", 2247050576U},
                                                    {"rank groups", 3374320757U},
                                                    {"several shapes", 1394542241U},
                                                    {"sizes", 3319424600U},
                                                    {"with replacement", 1546230713U},
                                                    {"without padding", 3319424600U}};
  EXPECT_EQ(checksums, expected);
}

// Of scores that have nothing to do with sizes, buckets have what they should, nearly.
TEST(ScoreOrderTest, ManyGraphsOfASizeAreInOrderNearly) {
  const EpochRequest request = ByScore(4);
  const auto group = ScoredBatchesOf(*PreparedByScore(request), *request.by_score)[0];
  std::vector<double> means;
  for (size_t bucket = 0; bucket < 4; ++bucket) {
    std::vector<Scored> items;
    for (size_t b = bucket * group.size() / 4; b < (bucket + 1) * group.size() / 4; ++b) {
      items.insert(items.end(), group[b].begin(), group[b].end());
    }
    means.push_back(MeanOf(items) / std::ldexp(1, 63));
  }
  // Uniform in [-1, 1): in perfect order -0.75, -0.25, 0.25 and 0.75.
  EXPECT_LT(means[0], -0.6);
  EXPECT_NEAR(means[1], -0.25, 0.15);
  EXPECT_NEAR(means[2], 0.25, 0.15);
  EXPECT_GT(means[3], 0.6);
}

// A bucket's batches come in another order each epoch, with other graphs of the same sizes.
TEST(ScoreOrderTest, WithinABucketAllIsShuffled) {
  const auto of_epoch = [](uint64_t epoch, uint64_t seed) {
    EpochRequest request = ByScore(3);
    request.key.epoch = epoch;
    request.seed = seed;
    return ScoredBatchesOf(*PreparedByScore(request), *request.by_score)[0];
  };
  const auto one = of_epoch(0, 3);
  const auto front = [](const auto& group) { return MeanOf(group[0]); };
  EXPECT_NE(one, of_epoch(1, 3));
  EXPECT_NE(one, of_epoch(0, 4));
  EXPECT_NE(front(one), front(of_epoch(1, 3)));
  // Means within a bucket do not ascend.
  const auto end = one.begin() + static_cast<ptrdiff_t>(one.size() / 3);
  EXPECT_FALSE(std::is_sorted(one.begin(), end,
                              [](const auto& a, const auto& b) { return MeanOf(a) < MeanOf(b); }));
  // Nor do scores of one size within it: each is as likely in its first half as in its second.
  double difference = 0;
  size_t count = 0;
  for (uint64_t epoch = 0; epoch < 30; ++epoch) {
    const auto group = of_epoch(epoch, 5);
    const size_t third = group.size() / 3;
    for (size_t b = 0; b < third; ++b) {
      for (const auto& [size, score] : group[b]) {
        difference += (2 * b < third ? score : -score) / std::ldexp(1, 63);
        ++count;
      }
    }
  }
  EXPECT_LT(std::abs(difference) / std::sqrt(static_cast<double>(count)), 3);
}

// Epochs of two requests share a plan only if they have the same order.
TEST(ScoreOrderTest, WordsAreThoseOfTheScore) {
  std::vector<std::string> words;
  for (EpochRequest request : {ByScore(0), ByScore(4), ByScore(4, true)}) {
    words.push_back(request.Words());
    request.by_score->tensor.reset();
    words.push_back(request.Words());
    request.by_score->component = 1;
    words.push_back(request.Words());
    request.by_score = std::nullopt;
    // Epochs of before there was an order go on.
    EXPECT_THAT(request.Words(), Not(HasSubstr("score")));
  }
  EXPECT_THAT(words[0], HasSubstr("; by score by v1: t2"));
  EXPECT_THAT(words[8], HasSubstr("; by score by v1: c1 descending in 4 buckets"));
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::unique(words.begin(), words.end()), words.end());
}

// As it is stored. For the values of the law below, which floats of any width have exactly.
std::string BytesOf(DType dtype, double value) {
  const auto bytes = [](auto number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  switch (dtype) {
    case DType::kBool:
      return bytes(static_cast<uint8_t>(value > 2));
    case DType::kInt8:
      return bytes(static_cast<int8_t>(value));
    case DType::kInt16:
      return bytes(static_cast<int16_t>(value));
    case DType::kInt32:
      return bytes(static_cast<int32_t>(value));
    case DType::kInt64:
      return bytes(static_cast<int64_t>(value));
    case DType::kUint8:
      return bytes(static_cast<uint8_t>(value < 0 ? 0 : value));
    case DType::kUint16:
      return bytes(static_cast<uint16_t>(value < 0 ? 0 : value));
    case DType::kUint32:
      return bytes(static_cast<uint32_t>(value < 0 ? 0 : value));
    case DType::kUint64:
      return bytes(static_cast<uint64_t>(value < 0 ? 0 : value));
    case DType::kFloat16: {
      if (value == 0) return bytes(uint16_t{0});
      int exponent;
      const double mantissa = std::frexp(std::abs(value), &exponent);
      const int bits = static_cast<int>(std::ldexp(mantissa, 11)) - 1024;
      return bytes(
          static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | ((exponent + 14) << 10) | bits));
    }
    case DType::kBfloat16:
      return bytes(static_cast<float>(value)).substr(2);
    case DType::kFloat32:
      return bytes(static_cast<float>(value));
    case DType::kFloat64:
      return bytes(value);
  }
  return std::string();
}

// A number a graph of each type.
TEST(ScoreOrderTest, EveryTypeOfNumbersIsAScore) {
  const std::vector<double> values = {-2.5, -1, 0, 0.5, 1, 3, 4, 60, 65};
  for (int number = 0; number <= static_cast<int>(DType::kFloat64); ++number) {
    const auto dtype = static_cast<DType>(number);
    SCOPED_TRACE(DTypeName(dtype));
    const GraphSchema schema =
        GraphSchema::Create(SizeSchema::Create({"nodes"}).value(), {{"y", dtype, {1}, 1, {}, {}}})
            .value();
    EXPECT_TRUE(IsScore(schema, 0));
    const auto epoch_of = [&](std::vector<double> scores, const std::string* last) {
      MemoryDatasetStore store(1 << 20);
      EXPECT_THAT(store.Create("graphs", schema, {}), IsOk());
      std::string column;
      for (const double score : scores) column += BytesOf(dtype, score);
      if (last != nullptr) column += *last;
      const size_t n = column.size() / ElementBytes(dtype);
      SizeTable sizes =
          SizeTable::WithConsecutiveIds(n, 1, std::vector<uint32_t>(n, 1), 10).value();
      EXPECT_THAT(
          store.Append("graphs",
                       GraphChunk::Create(&schema, std::move(sizes), {column}, nullptr).value(), {},
                       std::nullopt),
          IsOk());
      EXPECT_THAT(store.Seal("graphs"), IsOk());
      EpochRequest request = DatasetWorld::Request({1, 1});
      request.padding = Padding::kNone;
      request.by_score = ByScoreRequest{0};
      EpochCatalog catalog(&store, {});
      const auto epoch = catalog.Prepare(request);
      std::vector<uint64_t> ids;
      for (uint64_t b = 0; epoch.ok() && b < n; ++b) {
        ids.push_back((*epoch)->Build(b)->batch.graph_ids[0] - 10);
      }
      return std::pair(epoch.status(), ids);
    };
    std::vector<double> backwards(values.rbegin(), values.rend());
    const auto [status, ids] = epoch_of(backwards, nullptr);
    ASSERT_THAT(status, IsOk());
    ASSERT_EQ(ids.size(), values.size());
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      // Types that cannot tell values apart leave them in any order.
      if (BytesOf(dtype, backwards[ids[i]]) == BytesOf(dtype, backwards[ids[i + 1]])) continue;
      EXPECT_LT(backwards[ids[i]], backwards[ids[i + 1]]);
    }
    if (number < static_cast<int>(DType::kFloat16)) continue;
    // All ones but the sign: not a number. Without a mantissa: infinite.
    const std::string nan =
        dtype == DType::kFloat16 ? std::string("\xff\x7f", 2) : BytesOf(dtype, std::nan(""));
    const std::string infinite = dtype == DType::kFloat16
                                     ? std::string("\x00\x7c", 2)
                                     : BytesOf(dtype, std::numeric_limits<double>::infinity());
    for (const std::string* const last : {&nan, &infinite}) {
      EXPECT_THAT(
          epoch_of(values, last).first,
          StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("order.by_score: graph 19 has ")));
    }
  }
}

}  // namespace
}  // namespace packhouse
