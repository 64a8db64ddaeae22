// Laws of tf.Examples over random schemas and graphs.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/example_encoder.h"
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

TEST(ExampleLawTest, WhatIsWrittenIsReadBack) {
  ForRandomSchemas([](const GraphSets& sets, uint64_t seed, Random&) {
    const GraphChunk chunk = RandomGraphsOf(sets, seed);
    const std::vector<std::string> records = RecordsOf(sets, chunk);
    const absl::StatusOr<GraphChunk> read = Decode(sets, records);
    ASSERT_THAT(read, IsOk());
    ASSERT_EQ(read->num_graphs(), kGraphs);
    for (size_t i = 0; i < kGraphs; ++i) EXPECT_TRUE(SameRows(chunk, i, *read, i)) << i;
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
  const std::string unknown("\x98\x06\x05\xa3\x06\x08\x01\xa4\x06", 9);  // 99: 5, 100: group.
  std::vector<std::string> keys;
  for (const auto& [key, feature] : example.features().feature()) keys.push_back(key);
  for (size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[random.Below(i)]);
  std::string parts[2];
  for (const std::string& key : keys) {
    const tensorflow::Feature& feature = example.features().feature().at(key);
    std::string& part = parts[random.Below(2)];
    const auto entry = [&](absl::string_view value) {
      std::string bytes = random.Below(2) == 0 ? unknown : "";
      AppendField(1, key, &bytes);
      AppendField(2, value, &bytes);
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
    const auto packed_or_not = [&](uint32_t wire_type, const std::string& value) {
      ++count;
      if (random.Below(2) == 0) {
        list.push_back(static_cast<char>(1 << 3 | wire_type));
        list += value;
      } else {
        AppendField(1, value, &list);
      }
      if (random.Below(4) == 0) list += unknown;
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
    }
    std::string value;
    if (count != 0) {
      // A list of another kind before it is replaced, one of the same kind is continued.
      if (random.Below(2) == 0) AppendField(kind % 3 + 1, "", &value);
      AppendField(kind, list, &value);
      if (random.Below(2) == 0) AppendField(kind, "", &value);
      if (random.Below(2) == 0) value += unknown;
    } else if (random.Below(2) == 0) {
      AppendField(random.Between(1, 3), "", &value);
    }
    entry(value);
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

}  // namespace
}  // namespace packhouse::tfgnn
