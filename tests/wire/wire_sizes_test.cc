#include "service/server/calls/wire_sizes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(SizeTableFromWireTest, ReadsLittleEndianRows) {
  v1::SizeTable wire;
  wire.set_num_graphs(2);
  wire.set_counts(std::string("\x01\0\0\0\x02\0\0\0\x03\0\0\0\0\x01\0\0", 16));
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable table, SizeTableFromWire(wire, 2, 40));
  EXPECT_THAT(table.tuple(0), ElementsAre(1, 2));
  EXPECT_THAT(table.tuple(1), ElementsAre(3, 256));
  EXPECT_EQ(table.graph_id(1), 41U);
  wire.set_first_id(7);
  EXPECT_EQ(SizeTableFromWire(wire, 2, 40)->graph_id(1), 8U);
  wire.set_graph_ids(Uint64sToWire({9, 5}));
  EXPECT_EQ(SizeTableFromWire(wire, 2, 40)->graph_id(1), 5U);
}

TEST(SizeTableFromWireTest, RefusesWhatDisagrees) {
  const auto expect_refused = [](const v1::SizeTable& wire, const std::string& message) {
    EXPECT_THAT(SizeTableFromWire(wire, 2, 0),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  v1::SizeTable wire;
  wire.set_num_graphs(2);
  wire.set_counts(std::string(15, '\0'));
  expect_refused(wire, "sizes.counts: 15 bytes, 2 graphs of 2 components take 16");
  wire.set_counts(std::string(16, '\0'));
  wire.set_graph_ids(std::string(8, '\0'));
  expect_refused(wire, "sizes.graph_ids: 8 bytes, 2 graphs take 16");
  wire.set_graph_ids(std::string(16, '\0'));
  expect_refused(wire, "graph id 0 occurs twice");
  wire.set_first_id(UINT64_MAX);
  expect_refused(wire, "first_id 18446744073709551615 + 2 graphs exceeds");
  wire.set_num_graphs(uint64_t{1} << 62);
  expect_refused(wire, "sizes.num_graphs: 4611686018427387904, at most 1048576");
}

// Short counts lie in the message itself, long ones apart.
TEST(SizesFromWireTest, ViewsTheMessage) {
  for (const uint32_t n : {0u, 1u, 2u, 1000u}) {
    std::vector<uint32_t> counts;
    for (uint32_t i = 0; i < 2 * n; ++i) counts.push_back(i * 0x01000193);
    v1::SizeTable wire;
    wire.set_num_graphs(n);
    wire.set_counts(Uint32sToWire(counts));
    std::vector<uint32_t> copy;
    PH_ASSERT_OK_AND_ASSIGN(const SizesView sizes, SizesFromWire(wire, 2, copy));
    EXPECT_EQ(sizes.num_graphs(), n);
    EXPECT_EQ(sizes.num_components(), 2U);
    EXPECT_THAT(sizes.counts(), ElementsAreArray(counts));
    EXPECT_TRUE(copy.empty());
    EXPECT_THAT(SizesFromWire(wire, 3, copy).ok(), n == 0);
  }
}

TEST(HistogramFromWireTest, RoundTrips) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const size_t l = random.Between(1, 4);
    SizeHistogram histogram(l);
    for (size_t i = 0; i < random.Below(30); ++i) {
      std::vector<uint32_t> tuple(l);
      for (uint32_t& count : tuple) count = random.Below(4);
      ASSERT_THAT(histogram.Add(tuple, random.Between(1, 1000)), IsOk());
    }
    std::vector<std::string> names;
    for (size_t k = 0; k < l; ++k) names.push_back(std::string(1, static_cast<char>('a' + k)));
    const SizeSchema schema = SizeSchema::Create(names).value();
    v1::Histogram wire;
    HistogramToWire(histogram, schema, wire);
    EXPECT_EQ(wire.num_graphs(), histogram.num_graphs());
    PH_ASSERT_OK_AND_ASSIGN(const NamedHistogram back, HistogramFromWire(wire));
    EXPECT_EQ(back.histogram, histogram) << "seed=" << seed;
    EXPECT_EQ(back.schema, schema);
  }
}

TEST(HistogramFromWireTest, RefusesWhatDisagrees) {
  v1::Histogram wire;
  wire.set_counts(std::string(9, '\0'));
  EXPECT_THAT(HistogramFromWire(wire),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("histogram.counts: 9 bytes")));
  wire.set_counts(std::string(8, '\0'));
  wire.set_tuples(std::string(4, '\0'));
  EXPECT_THAT(HistogramFromWire(wire),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("histogram.tuples: 4 bytes, 1 tuples of 2 components take 8")));
  wire.add_components("graphs");
  EXPECT_THAT(HistogramFromWire(wire),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'graphs' is implied")));
}

TEST(HistogramFromWireTest, CountsThatOverflowAreInvalid) {
  v1::Histogram wire;
  wire.set_tuples(Uint32sToWire({2, 2, 2, 2}));
  wire.set_counts(Uint64sToWire({uint64_t{1} << 62, uint64_t{1} << 62}));
  EXPECT_THAT(HistogramFromWire(wire),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("exceeds 2^64 - 1")));
}

TEST(BoundFromWireTest, UnsetIsInfiniteAndNegativeIsRefused) {
  google::protobuf::Duration wire;
  EXPECT_EQ(BoundFromWire(wire, "max_delay").value(), absl::InfiniteDuration());
  wire.set_seconds(1);
  wire.set_nanos(500'000'000);
  EXPECT_EQ(BoundFromWire(wire, "max_delay").value(), absl::Milliseconds(1500));
  wire.set_nanos(-1);
  EXPECT_THAT(BoundFromWire(wire, "max_delay"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_delay: 1 seconds and -1 nanos are not a duration")));
  wire.set_nanos(999'999'999);
  EXPECT_EQ(BoundFromWire(wire, "max_delay").value(), absl::Seconds(2) - absl::Nanoseconds(1));
  wire.set_nanos(1'000'000'000);
  EXPECT_THAT(BoundFromWire(wire, "max_delay"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1000000000 nanos")));
  wire.set_nanos(-500'000'000);
  wire.set_seconds(-1);
  EXPECT_THAT(BoundFromWire(wire, "max_delay"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_delay: -1.5s")));
  for (const auto& [seconds, nanos] :
       {std::pair(-1, 500'000'000), std::pair(-1, 1), std::pair(0, -1'000'000'000)}) {
    wire.set_seconds(seconds);
    wire.set_nanos(nanos);
    EXPECT_THAT(BoundFromWire(wire, "max_delay"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("max_delay: ", seconds, " seconds and ", nanos,
                                      " nanos are not a duration")));
  }
  wire.set_nanos(-999'999'999);
  EXPECT_THAT(BoundFromWire(wire, "max_delay"),
              StatusIs(absl::StatusCode::kInvalidArgument, "max_delay: -999.999999ms is negative"));
  google::protobuf::Duration back;
  DurationToWire(absl::Milliseconds(1500), back);
  EXPECT_EQ(back.seconds(), 1);
  EXPECT_EQ(back.nanos(), 500'000'000);
}

}  // namespace
}  // namespace packhouse
