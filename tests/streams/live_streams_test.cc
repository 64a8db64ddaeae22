#include "service/engine/streams/live_streams.h"

#include <cmath>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Graph i has i nodes and 2 i edges, for `begin` <= i < `end`.
void AddRange(SizeSample& sample, uint32_t begin, uint32_t end) {
  std::vector<uint32_t> counts;
  for (uint32_t i = begin; i < end; ++i) counts.insert(counts.end(), {i, 2 * i});
  sample.Add(SizesView::Create(end - begin, 2, counts).value());
}

TEST(SizeSampleTest, KeepsAllWhileTheyAreFew) {
  SizeSample sample(2, 1, nullptr);
  const auto most = static_cast<uint32_t>(SizeSample::MostGraphs(2));
  EXPECT_EQ(most, 8192U);
  for (uint32_t i = 0; i < most; i += 1024) AddRange(sample, i, i + 1024);
  const SizeHistogram all = sample.kept().Histogram();
  EXPECT_EQ(all.num_graphs(), most);
  for (uint32_t i = 0; i < most; ++i) ASSERT_EQ(all.CountOf({{i, 2 * i}}), 1U) << i;
}

// However many come, it has as many as it may, whole graphs all of them, and each eighth of the
// stream has about an eighth of them: the standard deviation is 28.
TEST(SizeSampleTest, IsEvenOverTheWholeStream) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    SizeSample sample(2, seed, nullptr);
    constexpr uint32_t kGraphs = 80'000;
    for (uint32_t i = 0; i < kGraphs; i += 500) AddRange(sample, i, i + 500);
    EXPECT_EQ(sample.num_seen(), kGraphs);
    const SizeHistogram kept = sample.kept().Histogram();
    EXPECT_EQ(kept.num_graphs(), SizeSample::MostGraphs(2));
    std::vector<double> parts(8);
    for (size_t row = 0; row < kept.num_distinct(); ++row) {
      ASSERT_EQ(kept.count(row), 1U);
      ASSERT_EQ(kept.tuple(row)[1], 2 * kept.tuple(row)[0]);
      parts[kept.tuple(row)[0] / (kGraphs / 8)] += 1;
    }
    for (const double part : parts) EXPECT_NEAR(part, 1024, 5 * std::sqrt(1024 * 7.0 / 8));
  }
}

TEST(SizeSampleTest, WithoutMemoryItStaysSmaller) {
  MemoryBudget memory(2 * 256 * sizeof(uint32_t));
  memory.SetReclaim([](uint64_t) { ADD_FAILURE() << "others gave something up"; });
  {
    SizeSample sample(2, 1, &memory);
    AddRange(sample, 0, 10'000);
    EXPECT_EQ(sample.kept().Histogram().num_graphs(), 256U);
    EXPECT_EQ(sample.num_seen(), 10'000U);
    EXPECT_EQ(memory.held(), memory.bound());
    SizeSample nothing(2, 1, &memory);
    AddRange(nothing, 0, 100);
    EXPECT_EQ(nothing.kept().Histogram().num_graphs(), 0U);
    EXPECT_EQ(nothing.num_seen(), 100U);
  }
  EXPECT_EQ(memory.held(), 0U);
}

TEST(SizeSampleTest, ManyComponentsTakeNoMoreBytes) {
  for (const size_t components : {size_t{0}, size_t{1}, size_t{64}}) {
    SizeSample sample(components, 1, nullptr);
    const size_t graphs = 2 * SizeSample::MostGraphs(components);
    const std::vector<uint32_t> counts(graphs * components, 3);
    sample.Add(SizesView::Create(graphs, components, counts).value());
    EXPECT_EQ(sample.kept().Histogram().num_graphs(), SizeSample::MostGraphs(components));
    EXPECT_LE(sample.kept().Histogram().num_graphs() * components * sizeof(uint32_t),
              SizeSample::kMostBytes);
  }
}

TEST(LiveStreamsTest, AStreamIsListedUntilItEnds) {
  MemoryBudget memory(1 << 20);
  LiveStreams streams(&memory);
  EXPECT_TRUE(streams.List().empty());
  const absl::Time now = absl::FromUnixSeconds(100);
  auto first = streams.Enter({"alice", "alice"}, "team/sizes", SizeSchema::NodesAndEdges(), now);
  const auto second = streams.Enter({"10.0.0.1", ""}, "", SizeSchema::NodesAndEdges(), now);
  first->Observe(SizesView::Create(3, 2, std::vector<uint32_t>{1, 2, 1, 2, 5, 6}).value());
  ASSERT_EQ(streams.List().size(), 2U);
  const LiveStreams::Stream listed = streams.List()[0];
  EXPECT_EQ(listed.client, "alice");
  EXPECT_EQ(listed.principal, "alice");
  EXPECT_EQ(streams.List()[1].client, "10.0.0.1");
  EXPECT_EQ(streams.List()[1].principal, "");
  EXPECT_EQ(streams.List()[1].num_graphs, 0U);
  EXPECT_EQ(listed.name, "team/sizes");
  EXPECT_EQ(listed.opened, now);
  EXPECT_EQ(listed.num_graphs, 3U);
  EXPECT_THAT(listed.components, ElementsAre("nodes", "edges"));
  const auto sizes = streams.Find(listed.number);
  ASSERT_THAT(sizes, IsOk());
  EXPECT_EQ(sizes->sample.CountOf({{1, 2}}), 2U);
  EXPECT_EQ(sizes->stream.num_graphs, 3U);
  EXPECT_EQ(sizes->stream.name, "team/sizes");
  EXPECT_EQ(sizes->schema, SizeSchema::NodesAndEdges());
  EXPECT_EQ(sizes->sample.CountOf({{5, 6}}), 1U);
  EXPECT_EQ(streams.Find(streams.List()[1].number)->sample.num_graphs(), 0U);
  first.reset();
  EXPECT_EQ(streams.List().size(), 1U);
  // Links have the number: it is of no stream of another server, or of this one after a restart.
  LiveStreams after(&memory);
  const auto third = after.Enter({"bob", "bob"}, "", SizeSchema::NodesAndEdges(), now);
  EXPECT_THAT(after.Find(listed.number),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no open")));
  EXPECT_LT(after.List()[0].number, uint64_t{1} << 53);
  EXPECT_THAT(streams.Find(listed.number),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no open stream")));
  EXPECT_EQ(memory.held(), 0U);
}

}  // namespace
}  // namespace packhouse
