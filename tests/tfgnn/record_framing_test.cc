#include "service/wings/tfgnn/record_framing.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse::tfgnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FileOf(const std::vector<std::string>& records) {
  std::string file;
  for (const std::string& record : records) AppendRecord(record, &file);
  return file;
}

// What TensorFlow's TFRecordWriter makes of the record "abc".
TEST(RecordFramingTest, IsTensorFlows) {
  EXPECT_EQ(MaskedCrc32c(std::string("\x03\0\0\0\0\0\0\0", 8)),
            MaskedCrc32c(FileOf({"abc"}).substr(0, 8)));
  // CRC32C of "123456789" is 0xe3069283.
  EXPECT_EQ(MaskedCrc32c("123456789"), ((0xe3069283U >> 15) | (0xe3069283U << 17)) + 0xa282ead8U);
}

TEST(RecordFramingTest, GivesBackWhatWasWrittenHoweverItIsCut) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    std::vector<std::string> records(random.Below(6));
    for (std::string& record : records) {
      record.assign(random.Below(200), static_cast<char>(random.Next()));
    }
    const std::string file = FileOf(records);
    RecordReader reader("f");
    std::vector<std::string> got;
    uint64_t end = 0;
    for (size_t at = 0; at < file.size();) {
      const size_t bytes = std::min(file.size() - at, size_t{1} + random.Below(50));
      reader.Feed(file.substr(at, bytes));
      at += bytes;
      while (true) {
        PH_ASSERT_OK_AND_ASSIGN(const auto record, reader.Next());
        if (!record) break;
        got.emplace_back(*record);
        end += kRecordHeaderBytes + record->size() + kRecordFooterBytes;
        EXPECT_EQ(reader.offset(), end);
      }
    }
    EXPECT_THAT(reader.Finish(), IsOk());
    EXPECT_EQ(got, records);
  }
}

// Every byte is under a checksum: none can change unseen, nor can the file end early.
TEST(RecordFramingTest, DamageNamesFileAndOffset) {
  const std::string file = FileOf({"first", "second"});
  const size_t second = kRecordHeaderBytes + 5 + kRecordFooterBytes;
  for (size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] ^= 0x10;
    RecordReader reader("part-7");
    reader.Feed(damaged);
    const std::string place =
        at < second ? "part-7: record 0 at offset 0: " : "part-7: record 1 at offset 21: ";
    if (at >= second) {
      ASSERT_THAT(reader.Next(), IsOk());
    }
    const absl::Status damage = reader.Next().status();
    EXPECT_THAT(damage, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(place))) << at;
    EXPECT_EQ(reader.Next().status(), damage) << at;
    EXPECT_EQ(reader.Finish(), damage) << at;
    EXPECT_EQ(reader.num_records(), at < second ? 0U : 1U);
  }
  for (size_t length = 0; length < file.size(); ++length) {
    RecordReader reader("part-7");
    reader.Feed(file.substr(0, length));
    while (true) {
      PH_ASSERT_OK_AND_ASSIGN(const auto record, reader.Next());
      if (!record) break;
    }
    if (length == 0 || length == second) {
      EXPECT_THAT(reader.Finish(), IsOk());
    } else {
      EXPECT_THAT(reader.Finish(),
                  StatusIs(absl::StatusCode::kDataLoss,
                           HasSubstr(absl::StrCat("the file ends after ",
                                                  length < second ? length : length - second,
                                                  " bytes of it"))));
    }
  }
}

// What TensorFlow writes with compression_type="ZLIB" begins with these bytes.
TEST(RecordFramingTest, ZlibIsNamed) {
  for (const absl::string_view head : {"\x78\x9c", "\x78\x01", "\x78\xda"}) {
    RecordReader reader("f.tfrecord");
    reader.Feed(absl::StrCat(head, "and more than a header"));
    EXPECT_THAT(reader.Next(), StatusIs(absl::StatusCode::kDataLoss,
                                        AllOf(HasSubstr("f.tfrecord: record 0 at offset 0"),
                                              HasSubstr("compressed by ZLIB"))));
  }
  for (const std::string& other :
       {std::string("something else entirely"), std::string("\x78\x02 and more than a header"),
        std::string("\x58\x85 and more than a header"), FileOf({"a"}) + "\x78\x9c is a second one",
        std::string(1, '\x78')}) {
    RecordReader reader("f.tfrecord");
    reader.Feed(other);
    absl::Status status;
    for (int i = 0; i < 2 && status.ok(); ++i) status = reader.Next().status();
    if (status.ok()) status = reader.Finish();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, Not(HasSubstr("ZLIB")))) << other;
  }
}

TEST(RecordFramingTest, TooLongRecordsAreRefusedBeforeTheyAreRead) {
  std::string file = FileOf({std::string(100, 'x')});
  RecordReader reader("f", 99);
  reader.Feed(file.substr(0, kRecordHeaderBytes));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(reader.Next(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        "f: record 0 at offset 0: 100 bytes, at most 99"));
  }
  RecordReader wide("f", 100);
  wide.Feed(file);
  EXPECT_TRUE(wide.Next().value().has_value());
}

}  // namespace
}  // namespace packhouse::tfgnn
