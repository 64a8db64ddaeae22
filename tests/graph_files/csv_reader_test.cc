#include "service/wings/graphs/files/csv_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"

namespace packhouse::graph_files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Records = std::vector<std::vector<std::string>>;

struct Outcome {
  Records records;
  std::vector<uint64_t> lines;
  absl::Status status;
};

// Reads `text`, fed `piece` bytes at a time.
Outcome Read(absl::string_view text, size_t piece = 1 << 20, char delimiter = ',') {
  Outcome outcome;
  CsvReader reader(delimiter);
  while (true) {
    const absl::StatusOr<bool> has_record = reader.Next();
    outcome.status = has_record.status();
    if (!has_record.ok()) return outcome;
    if (*has_record) {
      outcome.records.emplace_back(reader.fields().begin(), reader.fields().end());
      outcome.lines.push_back(reader.line());
    } else if (text.empty()) {
      reader.End();
      const absl::StatusOr<bool> last = reader.Next();
      outcome.status = last.status();
      if (!last.ok() || !*last) return outcome;
      outcome.records.emplace_back(reader.fields().begin(), reader.fields().end());
      outcome.lines.push_back(reader.line());
    } else {
      reader.Feed(text.substr(0, piece));
      text.remove_prefix(std::min(piece, text.size()));
    }
  }
}

TEST(CsvReaderTest, FieldsAreWhatRfc4180Says) {
  const std::vector<std::pair<std::string, Records>> cases = {
      {"", {}},
      {"\n\r\n", {}},
      {"a", {{"a"}}},
      {"a,b\n", {{"a", "b"}}},
      {"a,b\r\nc,d\r\n", {{"a", "b"}, {"c", "d"}}},
      {"a,\n,b\n,\n", {{"a", ""}, {"", "b"}, {"", ""}}},
      {"a,", {{"a", ""}}},
      {"\"\"\n", {{""}}},
      {"\"a,\"\"b\"\"\",c", {{"a,\"b\"", "c"}}},
      {"\"two\nlines\",x\r\n\ny,z\n", {{"two\nlines", "x"}, {"y", "z"}}},
      {"\"a\"\r\n\"b\"\r", {{"a"}, {"b"}}},
      {"\xef\xbb\xbfid\nx\n", {{"id"}, {"x"}}},
      {"\xef\xbb", {{"\xef\xbb"}}},
      {" a , b\n", {{" a ", " b"}}},
      {"a\rb\n", {{"a\rb"}}},
  };
  for (const auto& [text, records] : cases) {
    SCOPED_TRACE(testing::PrintToString(text));
    const Outcome outcome = Read(text);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.records, records);
  }
  EXPECT_EQ(Read("1 2\n3 4\n", 1 << 20, ' ').records, (Records{{"1", "2"}, {"3", "4"}}));
}

TEST(CsvReaderTest, ALineIsThatOfTheRecordsBeginning) {
  EXPECT_THAT(Read("a\n\n\"x\ny\nz\",\"\n\"\nb\n").lines, ElementsAre(1, 3, 7));
}

TEST(CsvReaderTest, WhatIsMalformedIsNamedWithItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a,b\nc,d\"e\n",
       "line 2, byte 4: a quote within a field that does not begin with one, in field 2 'd'"},
      {"\"a\"b,c\n", "line 1, byte 4: text after a closing quote, in field 1 'a\\\"'"},
      {"x\n\"a\"\r\"", "line 2, byte 5: text after a closing quote, in field 1 'a\\\"\\r'"},
      {"\"a\"\r,", "line 1, byte 5: text after a closing quote, in field 1 'a\\\"\\r'"},
      {"a\nb,\"c\nd", "line 3, byte 2: a quote that nothing closes, in field 2 'c\\nd'"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(testing::PrintToString(text));
    const Outcome outcome = Read(text);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(outcome.status.message(), message);
    EXPECT_EQ(Read(text, 1).status, outcome.status);
  }
}

TEST(CsvReaderTest, AMissingQuoteIsFoundBeforeTheWholeFileIsARecord) {
  CsvReader reader;
  reader.Feed("\"" + std::string(CsvReader::kMaxRecordBytes, 'a'));
  const absl::Status status = reader.Next().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a record of more than 16777216 bytes"));
  EXPECT_EQ(reader.Next().status(), status);
}

// Whatever the fields hold, and however the bytes are cut: what was written is what is read.
TEST(CsvReaderTest, WrittenFieldsAreReadBack) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    SeededRandom random(seed);
    Records records(random.Below(5));
    std::string text;
    for (std::vector<std::string>& record : records) {
      record.resize(1 + random.Below(3));
      for (size_t i = 0; i < record.size(); ++i) {
        for (uint64_t n = random.Below(5); n > 0; --n) {
          record[i] += std::string("a,\"\n\r b")[random.Below(7)];
        }
        absl::StrAppend(&text, i == 0 ? "" : ",", "\"",
                        absl::StrReplaceAll(record[i], {{"\"", "\"\""}}), "\"");
      }
      text += random.Below(2) == 0 ? "\n" : "\r\n";
    }
    for (const size_t piece : {size_t{1}, size_t{3}, text.size() + 1}) {
      const Outcome outcome = Read(text, piece);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.records, records);
    }
  }
}

}  // namespace
}  // namespace packhouse::graph_files
