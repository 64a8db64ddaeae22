// Laws of tf.Examples over random schemas and graphs.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "service/wings/tfgnn/number_lists.h"
#include "service/wings/tfgnn/random_graphs.h"
#include "service/wings/tfgnn/wire_cursor.h"
#include "tensorflow/core/example/example.pb.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/tfgnn/random_schemas.h"

namespace packhouse::tfgnn {
namespace {

constexpr size_t kGraphs = 4;

struct Prefixed {
  // NOLINTNEXTLINE(google-explicit-constructor): it is given where options are.
  operator EncoderOptions() const { return {"p/"}; }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator DecoderOptions() const { return {"p/", size_t{1} << 20}; }
};

GraphChunk RandomGraphsOf(const GraphSets& sets, uint64_t seed) {
  RandomGraphOptions options;
  options.min_rows = seed % 3 == 0 ? 0 : 1;
  options.max_rows = 5;
  options.whole_range = true;
  SeededRandom random(seed);
  RowBuilder rows(sets.shared_schema());
  for (size_t i = 0; i < kGraphs; ++i) {
    EXPECT_THAT(AppendRandomGraph(sets, options, random, rows), IsOk());
  }
  absl::StatusOr<GraphChunk> chunk = rows.Build(0);
  EXPECT_THAT(chunk, IsOk());
  return *std::move(chunk);
}

std::vector<std::string> RecordsOf(const GraphSets& sets, const GraphChunk& chunk) {
  std::vector<std::string> records(chunk.num_graphs());
  ExampleEncoder encoder(sets, Prefixed());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_THAT(encoder.Append(chunk, i, &records[i]), IsOk());
  }
  return records;
}

absl::StatusOr<GraphChunk> Decode(const GraphSets& sets, const std::vector<std::string>& records) {
  absl::StatusOr<ExampleDecoder> decoder = ExampleDecoder::Create(sets, Prefixed());
  if (!decoder.ok()) return decoder.status();
  RowBuilder rows(sets.shared_schema());
  for (size_t i = 0; i < records.size(); ++i) {
    const absl::Status status = decoder->Append(records[i], i, rows);
    if (!status.ok()) return status;
  }
  return rows.Build(0);
}

template <typename Test>
void ForRandomSchemas(Test test) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnn(RandomTfgnnSchema(random)));
    test(sets, seed, random);
    if (testing::Test::HasFailure()) return;
  }
}

// Keys in ascending order.
std::string AsProtobufWritesIt(const std::string& record) {
  tensorflow::Example example;
  EXPECT_TRUE(example.ParseFromString(record));
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    EXPECT_TRUE(example.SerializeToCodedStream(&out));
  }
  return bytes;
}

TEST(ExampleLawTest, WhatIsWrittenIsReadBack) {
  ForRandomSchemas([](const GraphSets& sets, uint64_t seed, Random&) {
    const GraphChunk chunk = RandomGraphsOf(sets, seed);
    const std::vector<std::string> records = RecordsOf(sets, chunk);
    const absl::StatusOr<GraphChunk> read = Decode(sets, records);
    ASSERT_THAT(read, IsOk());
    ASSERT_EQ(read->num_graphs(), kGraphs);
    for (size_t i = 0; i < kGraphs; ++i) EXPECT_TRUE(SameRows(chunk, i, *read, i)) << i;
    for (const std::string& record : records) EXPECT_EQ(record, AsProtobufWritesIt(record));
    // Equal graphs have equal bytes.
    EXPECT_EQ(RecordsOf(sets, *read), records);
  });
}

// Appends a field of a length and as many bytes.
void AppendField(uint32_t field, absl::string_view bytes, std::string* out) {
  const auto append_varint = [out](uint64_t value) {
    for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
    out->push_back(static_cast<char>(value));
  };
  append_varint(TagOf(field, kBytes));
  append_varint(bytes.size());
  out->append(bytes.data(), bytes.size());
}

// The same record as another writer may write it: keys in any order and some of them twice, lists
// in parts and not packed, fields that nobody knows between, empty lists left out or without a
// kind.
std::string WrittenElsewhere(absl::string_view record, Random& random) {
  tensorflow::Example example;
  EXPECT_TRUE(example.ParseFromArray(record.data(), static_cast<int>(record.size())));
  // 99: 5, 100: a group, 101: eight bytes, 102: four bytes, 103: "u".
  const std::string unknown(
      "\x98\x06\x05\xa3\x06\x08\x01\xa4\x06\xa9\x06\x01\x02\x03\x04\x05\x06\x07\x08"
      "\xb5\x06\x01\x02\x03\x04\xba\x06\x01u",
      29);
  std::vector<std::string> keys;
  for (const auto& [key, feature] : example.features().feature()) keys.push_back(key);
  for (size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[random.Below(i)]);
  std::string parts[2];
  for (const std::string& key : keys) {
    const tensorflow::Feature& feature = example.features().feature().at(key);
    std::string& part = parts[random.Below(2)];
    const auto entry = [&](absl::string_view value, absl::string_view rest = "") {
      std::string bytes = random.Below(2) == 0 ? unknown : "";
      AppendField(1, key, &bytes);
      AppendField(2, value, &bytes);
      if (!rest.empty()) AppendField(2, rest, &bytes);
      AppendField(1, bytes, &part);
    };
    // An earlier value of the key, which does not count.
    if (random.Below(2) == 0) {
      tensorflow::Feature other;
      other.mutable_int64_list()->add_value(-7);
      entry(other.SerializeAsString());
    }
    std::string list;
    uint32_t kind = 3;
    size_t count = 0;
    // Where the list may be cut.
    size_t half = 0;
    const auto packed_or_not = [&](uint32_t wire_type, const std::string& value) {
      ++count;
      if (random.Below(2) == 0) {
        list.push_back(static_cast<char>(1 << 3 | wire_type));
        list += value;
      } else {
        AppendField(1, value, &list);
      }
      if (random.Below(4) == 0) list += unknown;
      if (random.Below(2) == 0) half = list.size();
    };
    for (const int64_t value : feature.int64_list().value()) {
      std::string bytes;
      uint64_t rest = static_cast<uint64_t>(value);
      for (; rest >= 0x80; rest >>= 7) bytes.push_back(static_cast<char>(rest | 0x80));
      bytes.push_back(static_cast<char>(rest));
      packed_or_not(kVarint, bytes);
    }
    for (const float value : feature.float_list().value()) {
      kind = 2;
      packed_or_not(kFixed32, std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
    }
    for (const std::string& value : feature.bytes_list().value()) {
      kind = 1;
      ++count;
      AppendField(1, value, &list);
      if (random.Below(4) == 0) list += unknown;
      if (random.Below(2) == 0) half = list.size();
    }
    std::string value;
    std::string rest;
    if (count != 0) {
      // A list of another kind before it is replaced, one of the same kind is continued: in the
      // same part of the value, or in another.
      if (random.Below(2) == 0) AppendField(kind % 3 + 1, unknown, &value);
      AppendField(kind, absl::string_view(list).substr(0, half), &value);
      AppendField(kind, absl::string_view(list).substr(half),
                  random.Below(2) == 0 ? &value : &rest);
      if (random.Below(2) == 0) value += unknown;
    } else if (random.Below(2) == 0) {
      AppendField(random.Between(1, 3), "", &value);
    }
    entry(value, rest);
  }
  std::string written = unknown;
  AppendField(1, parts[0], &written);
  AppendField(1, parts[1], &written);
  return written;
}

TEST(ExampleLawTest, OtherWritersMeanTheSame) {
  ForRandomSchemas([](const GraphSets& sets, uint64_t seed, Random& random) {
    const GraphChunk chunk = RandomGraphsOf(sets, seed);
    std::vector<std::string> records = RecordsOf(sets, chunk);
    // A size is one value: those cannot be left out.
    for (std::string& record : records) {
      const std::string other = WrittenElsewhere(record, random);
      tensorflow::Example here;
      tensorflow::Example there;
      ASSERT_TRUE(here.ParseFromString(record));
      ASSERT_TRUE(there.ParseFromString(other));
      // So protobuf reads it.
      there.DiscardUnknownFields();
      for (const auto& [key, feature] : here.features().feature()) {
        const tensorflow::Feature& read = there.features().feature().at(key);
        const bool is_empty = feature.int64_list().value().empty() &&
                              feature.float_list().value().empty() &&
                              feature.bytes_list().value().empty();
        if (is_empty) continue;
        EXPECT_EQ(read.SerializeAsString(), feature.SerializeAsString()) << key;
      }
      record = other;
    }
    const absl::StatusOr<GraphChunk> read = Decode(sets, records);
    ASSERT_THAT(read, IsOk());
    for (size_t i = 0; i < kGraphs; ++i) EXPECT_TRUE(SameRows(chunk, i, *read, i)) << i;
  });
}

// A record that is cut off anywhere is refused where protobuf's parser refuses it.
TEST(ExampleLawTest, RecordsThatAreCutOffAreNotTakenForShorterOnes) {
  const google::protobuf::LogSilencer silencer;
  size_t num_whole = 0;
  size_t num_cut = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnn(RandomTfgnnSchema(random)));
    PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(sets, Prefixed()));
    for (const std::string& record : RecordsOf(sets, RandomGraphsOf(sets, seed))) {
      for (size_t bytes = 0; bytes < record.size(); ++bytes) {
        const std::string cut = record.substr(0, bytes);
        RowBuilder rows(sets.shared_schema());
        tensorflow::Example example;
        if (example.ParseFromString(cut)) {
          ++num_whole;
          continue;
        }
        ++num_cut;
        ASSERT_THAT(decoder.Append(cut, 0, rows),
                    StatusIs(absl::StatusCode::kInvalidArgument, testing::StartsWith("record 0: ")))
            << bytes << " of " << record.size() << " bytes";
      }
    }
  }
  EXPECT_GT(num_whole, 0U);
  EXPECT_GT(num_cut, 1000U);
}

// All messages of up to three bytes of these, at each depth of a record.
TEST(ExampleLawTest, SmallMessagesAreReadOrRefusedAsProtobufDoes) {
  const google::protobuf::LogSilencer silencer;
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets,
                          GraphSets::FromTfgnnFile("node_sets { key: 'a' value { } }"));
  PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(sets));
  RowBuilder rows(sets.shared_schema());
  const auto in_field = [](uint32_t field, absl::string_view bytes) {
    std::string message;
    AppendField(field, bytes, &message);
    return message;
  };
  const auto in_feature = [&](const std::string& feature) {
    return in_field(1, in_field(1, in_field(1, "k") + in_field(2, feature)));
  };
  size_t num_read = 0;
  size_t num_refused = 0;
  const auto check = [&](const std::string& record) {
    tensorflow::Example example;
    const bool is_example = example.ParseFromString(record);
    ++(is_example ? num_read : num_refused);
    EXPECT_EQ(decoder.Append(record, 0, rows).ok(), is_example) << absl::CHexEscape(record);
  };
  // Tags of fields 1 to 4 of each kind, lengths, and bytes that more bytes must follow. These make
  // keys that are no UTF-8, which protobuf refuses by itself.
  constexpr absl::string_view kAlphabet("\0\1\2\x08\x09\x0a\x0b\x0c\x0d\x0e\x12\x1a\x22\x80\xff",
                                        15);
  std::vector<std::string> messages = {""};
  for (size_t i = 0; messages[i].size() < 3; ++i) {
    for (const char c : kAlphabet) messages.push_back(messages[i] + c);
  }
  for (const std::string& message : messages) {
    if (std::all_of(message.begin(), message.end(), absl::ascii_isascii)) {
      check(message);
      check(in_field(1, message));
      check(in_field(1, in_field(1, message)));
    }
    check(in_feature(message));
    for (const uint32_t kind : {1, 2, 3}) check(in_feature(in_field(kind, message)));
  }
  // The longest tags, numbers, lengths and fixed values, and what is a byte longer or shorter.
  const std::string more(10, '\xff');
  for (const std::string& message :
       {std::string("\x88\x80\x80\x80\0\5", 6), std::string("\x88\x80\x80\x80\x80\0\5", 7),
        absl::StrCat("\x08", more.substr(1), "\1"), absl::StrCat("\x08", more, "\1"),
        std::string("\x22\x80\x80\x80\x80\0", 6), std::string("\x22\x80\x80\x80\x80\x80\0", 7),
        absl::StrCat("\x09", std::string(8, 'f')), absl::StrCat("\x09", std::string(7, 'f')),
        absl::StrCat("\x09", std::string(9, '\0')), absl::StrCat("\x0d", std::string(4, 'f')),
        absl::StrCat("\x0d", std::string(3, 'f')), absl::StrCat("\x0d", std::string(5, '\0'))}) {
    check(in_feature(message));
    for (const uint32_t kind : {1, 2, 3}) check(in_feature(in_field(kind, message)));
  }
  for (const size_t depth : {1, 99, 100, 101}) {
    check(std::string(depth, '\x0b') + std::string(depth, '\x0c'));
  }
  EXPECT_GT(num_read, 1000U);
  EXPECT_GT(num_refused, 1000U);
}

// Whatever becomes of a record's bytes, it is read or refused as protobuf's parser says, and a
// refused one leaves the others as they are.
TEST(ExampleLawTest, DamagedRecordsAreReadAsProtobufReadsThemOrRefused) {
  // protobuf logs every key that is no UTF-8.
  const google::protobuf::LogSilencer silencer;
  ForRandomSchemas([](const GraphSets& sets, uint64_t seed, Random& random) {
    const GraphChunk chunk = RandomGraphsOf(sets, seed);
    const std::vector<std::string> records = RecordsOf(sets, chunk);
    PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(sets, Prefixed()));
    for (int round = 0; round < 30; ++round) {
      std::string damaged = records[random.Below(records.size())];
      if (damaged.empty()) continue;
      const size_t changes = random.Between(1, 3);
      for (size_t i = 0; i < changes; ++i) {
        damaged[random.Below(damaged.size())] = static_cast<char>(random.Next());
      }
      if (random.Below(4) == 0) damaged.resize(random.Below(damaged.size() + 1));
      RowBuilder rows(sets.shared_schema());
      ASSERT_THAT(decoder.Append(records[0], 0, rows), IsOk());
      const absl::Status status = decoder.Append(damaged, 1, rows);
      ASSERT_THAT(decoder.Append(records[1], 2, rows), IsOk());
      PH_ASSERT_OK_AND_ASSIGN(const GraphChunk read, rows.Build(0));
      const size_t last = read.num_graphs() - 1;
      ASSERT_EQ(last, status.ok() ? 2U : 1U);
      EXPECT_TRUE(SameRows(read, 0, chunk, 0));
      EXPECT_TRUE(SameRows(read, last, chunk, 1));
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(status.message()), testing::StartsWith("record 1: "));
      }
      tensorflow::Example example;
      // protobuf also refuses keys that are no UTF-8.
      if (!example.ParseFromString(damaged)) continue;
      RowBuilder again(sets.shared_schema());
      const absl::Status same = decoder.Append(example.SerializeAsString(), 1, again);
      EXPECT_EQ(same.ok(), status.ok()) << status << " " << same;
      if (!status.ok() || !same.ok()) continue;
      PH_ASSERT_OK_AND_ASSIGN(const GraphChunk reread, again.Build(0));
      EXPECT_TRUE(SameRows(read, 1, reread, 0));
    }
  });
}

// What random graphs had, of the schema below.
struct Drawn {
  std::set<uint64_t> counts;
  std::set<char> letters;
  std::set<char> bools;
  std::vector<double> fractions;
  std::vector<int64_t> integers;

  void Add(const GraphSets& sets, const GraphChunk& chunk, uint32_t min_rows) {
    const auto count = [&](const char* set) {
      return chunk.count(0, *sets.schema().sizes().IndexOf(set));
    };
    const auto rows = [&](const char* tensor) {
      return chunk.rows(0, *sets.schema().TensorIndex(tensor));
    };
    const bool has_nodes = count("a") != 0 && count("z") != 0;
    EXPECT_GE(std::min(count("a"), count("z")), min_rows);
    EXPECT_TRUE(has_nodes ? count("e") >= min_rows : count("e") == 0);
    counts.insert({count("a"), count("z")});
    if (has_nodes) counts.insert(count("e"));
    bools.insert(rows("a.b").begin(), rows("a.b").end());
    letters.insert(rows("a.s.bytes").begin(), rows("a.s.bytes").end());
    for (uint64_t row = 0; row < count("a"); ++row) {
      counts.insert(static_cast<uint64_t>(IndexValueAt(DType::kInt32, rows("a.s.bytes.d1"), row)));
      integers.push_back(IndexValueAt(DType::kInt32, rows("a.i"), row));
      const auto at = [&](const char* tensor, auto value) {
        std::memcpy(&value, rows(tensor).data() + row * sizeof(value), sizeof(value));
        return value;
      };
      fractions.insert(fractions.end(),
                       {at("a.f", 0.0F), at("a.d", 0.0), FloatOfFloat16(at("a.h", uint16_t{0})),
                        FloatOfBfloat16(at("a.g", uint16_t{0}))});
    }
  }
};

// Each value is of the range that its type has, both ends of a range are reached, and the same
// numbers give the same graph.
TEST(RandomGraphsTest, ValuesAndCountsAreOfTheirRanges) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnnFile(R"(
      node_sets { key: "a" value {
        features { key: "b" value { dtype: DT_BOOL } }
        features { key: "i" value { dtype: DT_INT32 } }
        features { key: "f" value { dtype: DT_FLOAT } }
        features { key: "d" value { dtype: DT_DOUBLE } }
        features { key: "h" value { dtype: DT_HALF } }
        features { key: "g" value { dtype: DT_BFLOAT16 } }
        features { key: "s" value { dtype: DT_STRING } } } }
      node_sets { key: "z" value { } }
      edge_sets { key: "e" value { source: "a" target: "z" } })"));
  for (const bool whole_range : {false, true}) {
    Drawn drawn;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      RandomGraphOptions options;
      options.min_rows = seed % 2 == 0 ? 0 : 1;
      options.max_rows = 3;
      options.whole_range = whole_range;
      RowBuilder rows(sets.shared_schema());
      for (int i = 0; i < 2; ++i) {
        SeededRandom random(seed);
        ASSERT_THAT(AppendRandomGraph(sets, options, random, rows), IsOk());
      }
      PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows.Build(0));
      EXPECT_TRUE(SameRows(chunk, 0, chunk, 1));
      drawn.Add(sets, chunk, options.min_rows);
    }
    EXPECT_EQ(drawn.counts, (std::set<uint64_t>{0, 1, 2, 3}));
    EXPECT_EQ(drawn.bools, (std::set<char>{0, 1}));
    EXPECT_EQ(std::string(drawn.letters.begin(), drawn.letters.end()),
              "abcdefghijklmnopqrstuvwxyz");
    const auto [least, most] = std::minmax_element(drawn.fractions.begin(), drawn.fractions.end());
    EXPECT_TRUE(0 <= *least && *least < 0.05 && 0.95 < *most && *most < 1) << *least << *most;
    const auto [first, last] = std::minmax_element(drawn.integers.begin(), drawn.integers.end());
    const int64_t bound = whole_range ? int64_t{1} << 31 : 100;
    EXPECT_TRUE(0.9 * bound < *last && *last < bound) << *last;
    EXPECT_TRUE(whole_range ? *first < -0.9 * bound : 0 <= *first && *first < 10) << *first;
  }
}

TEST(RandomGraphsTest, WhatCannotBeMadeIsNamed) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets,
                          GraphSets::FromTfgnnFile("node_sets { key: 'a' value { } }"));
  SeededRandom random(1);
  RowBuilder rows(sets.shared_schema());
  RandomGraphOptions wrong;
  wrong.min_rows = 8;
  EXPECT_THAT(AppendRandomGraph(sets, wrong, random, rows),
              StatusIs(absl::StatusCode::kInvalidArgument, "min_rows 8 is above max_rows 7"));
  for (const TensorSpec& end : {TensorSpec{"edge_index", DType::kInt32, {2}, 1, 0, ""},
                                TensorSpec{"source", DType::kInt64, {}, 1, 0, ""}}) {
    std::vector<TensorSpec> tensors = {end};
    if (end.row_shape.empty()) tensors.push_back({"target", DType::kInt32, {}, 1, 0, ""});
    PH_ASSERT_OK_AND_ASSIGN(
        const GraphSets others,
        GraphSets::FromSchema(GraphSchema::Create(SizeSchema::NodesAndEdges(), tensors).value()));
    RowBuilder of_others(others.shared_schema());
    EXPECT_THAT(AppendRandomGraph(others, {}, random, of_others),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "edge set 'edges' does not have its ends in two tensors"));
  }
}

}  // namespace
}  // namespace packhouse::tfgnn
