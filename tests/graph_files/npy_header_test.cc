#include "service/wings/graphs/files/npy_header.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/npy_text.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kPlain[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }";

TEST(ParseNpyHeaderTest, WhatNumpyWritesIsRead) {
  const std::string file = NpyHeaderOf(kPlain) + "the elements";
  PH_ASSERT_OK_AND_ASSIGN(const NpyHeader header, ParseNpyHeader(file));
  EXPECT_EQ(header.dtype, DType::kInt32);
  EXPECT_THAT(header.shape, ElementsAre(3, 2));
  EXPECT_EQ(header.num_elements, 6);
  EXPECT_EQ(header.data_bytes, 24);
  EXPECT_EQ(header.RowElements(), 2);
  EXPECT_EQ(file.substr(header.header_bytes), "the elements");
}

TEST(ParseNpyHeaderTest, ShapesOfAnyRank) {
  const auto parse = [](const std::string& shape) {
    return ParseNpyHeader(
        NpyHeaderOf("{'descr': '|b1', 'fortran_order': False, 'shape': " + shape + "}"));
  };
  EXPECT_THAT(parse("()")->shape, IsEmpty());
  EXPECT_EQ(parse("()")->num_elements, 1);
  EXPECT_THAT(parse("(7,)")->shape, ElementsAre(7));
  EXPECT_THAT(parse("(7, 1, 2)")->shape, ElementsAre(7, 1, 2));
  EXPECT_THAT(parse("(7, 1, 2,)")->shape, ElementsAre(7, 1, 2));
  EXPECT_EQ(parse("(0, 9)")->data_bytes, 0);
  EXPECT_EQ(parse("(0, 9)")->RowElements(), 9);
  // As many bytes as may be, and one more.
  EXPECT_EQ(parse("(9223372036854775807,)")->data_bytes, uint64_t{9223372036854775807});
  EXPECT_THAT(parse("(9223372036854775808,)"),
              StatusIs(absl::StatusCode::kInvalidArgument, "shape has more than 2^63 - 1 bytes"));
}

TEST(ParseNpyHeaderTest, EveryElementTypeButBfloat16) {
  const std::vector<std::pair<std::string, DType>> types = {
      {"|b1", DType::kBool},    {"|i1", DType::kInt8},    {"<i2", DType::kInt16},
      {"<i4", DType::kInt32},   {"<i8", DType::kInt64},   {"|u1", DType::kUint8},
      {"<u2", DType::kUint16},  {"<u4", DType::kUint32},  {"<u8", DType::kUint64},
      {"<f2", DType::kFloat16}, {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64},
      {">u1", DType::kUint8},   {"<b1", DType::kBool}};
  for (const auto& [descr, dtype] : types) {
    SCOPED_TRACE(descr);
    PH_ASSERT_OK_AND_ASSIGN(const NpyHeader header,
                            ParseNpyHeader(NpyHeaderOf("{'shape': (1,), 'descr': \"" + descr +
                                                       "\", 'fortran_order': False}")));
    EXPECT_EQ(header.dtype, dtype);
  }
}

TEST(ParseNpyHeaderTest, LaterVersionsHaveALongerLength) {
  for (const char major : {'\x02', '\x03'}) {
    const std::string first = NpyHeaderOf(kPlain);
    std::string file =
        first.substr(0, 6) + major + first.substr(7, 3) + std::string(2, '\0') + first.substr(10);
    PH_ASSERT_OK_AND_ASSIGN(const NpyHeader header, ParseNpyHeader(file));
    EXPECT_EQ(header.header_bytes, file.size());
  }
}

TEST(ParseNpyHeaderTest, BadDictionariesAreRefusedSayingWhatIsWrong) {
  struct Case {
    std::string dictionary;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"{'descr': '>i4', 'fortran_order': False, 'shape': (3,)}",
       "dtype '>i4' is big-endian; save the array as '<i4'"},
      {"{'descr': '<i4', 'fortran_order': True, 'shape': (3, 2)}", "is in Fortran order"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "dtype '|O' cannot be read"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", "dtype '<c8' cannot be read"},
      {"{'descr': '|i4', 'fortran_order': False, 'shape': (3,)}", "dtype '|i4' cannot be read"},
      {"{'descr': '', 'fortran_order': False, 'shape': (3,)}", "dtype '' cannot be read"},
      {"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,)}",
       "in place of a simple dtype"},
      {"{'descr': '<i4', 'shape': (3,)}", "lacks the key 'fortran_order'"},
      {"{'fortran_order': False, 'shape': (3,)}", "lacks the key 'descr'"},
      {"{'descr': '<i4', 'fortran_order': False}", "lacks the key 'shape'"},
      {"{'descr': '<i4', 'descr': '<i8', 'fortran_order': False, 'shape': (3,)}",
       "the key 'descr', which is unknown or there twice"},
      {"{'fortran_order': False, 'fortran_order': True}",
       "the key 'fortran_order', which is unknown or there twice"},
      {"{'shape': (3,), 'shape': (3,)}", "the key 'shape', which is unknown or there twice"},
      {"{", "in place of a key in quotes"},
      {"{'descr': ", "in place of a simple dtype in quotes"},
      {"{'colour': '<i4'}", "the key 'colour', which is unknown or there twice"},
      {"{'descr': '<i4', 'fortran_order': 0, 'shape': (3,)}", "in place of True or False"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (3)}", "in place of a ','"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': 3}", "in place of a '('"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (-3,)}", "has '-3"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (3L,)}", "has 'L"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
       "in place of an extent below 2^64"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
       "more than 2^63 - 1 bytes"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}",
       "more than 2^63 - 1 bytes"},
      {"{'descr': '<i4' 'fortran_order': False, 'shape': (3,)}", "in place of a ',' or a '}'"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,)} x", "in place of the header's end"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,", "in place of an extent"},
      {"", "in place of a '{'"},
      {"{'descr': '<i1', 'fortran_order': False, 'shape': (" +
           absl::StrJoin(std::vector<int>(33, 1), ", ") + ")}",
       "shape has more than 32 dimensions"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.dictionary);
    EXPECT_THAT(ParseNpyHeader(NpyHeaderOf(c.dictionary)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.says)));
  }
}

TEST(ParseNpyHeaderTest, WhatIsNoNpyFileIsRefused) {
  const std::string file = NpyHeaderOf(kPlain);
  const auto says = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(ParseNpyHeader("PK\x03\x04 and so on"), says("is no .npy file: it begins with 'PK"));
  EXPECT_THAT(ParseNpyHeader(""), says("is no .npy file: it ends after 0 bytes"));
  std::string version = file;
  version[6] = '\x04';
  EXPECT_THAT(ParseNpyHeader(version), says("version 4.0"));
  version[6] = '\x01';
  version[7] = '\x01';
  EXPECT_THAT(ParseNpyHeader(version), says("version 1.1"));
  std::string no_newline = file;
  no_newline.back() = ' ';
  EXPECT_THAT(ParseNpyHeader(no_newline), says("does not end in a newline"));
  const std::string huge = file.substr(0, 6) + '\x02' + '\0' + "\xff\xff\xff\x7f";
  EXPECT_THAT(ParseNpyHeader(huge),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("has a header of 2147483659 bytes, must be ", kNpyPrefixBytes,
                                    " to ", kMaxNpyHeaderBytes)));
  EXPECT_THAT(ParseNpyHeader(file.substr(0, file.size() - 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("ends within its header: ", file.size() - 1, " of ",
                                    file.size(), " bytes")));
  EXPECT_THAT(ParseNpyHeader(NpyHeaderOf(std::string(50, 'x'))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("header has '", std::string(40, 'x'), "' in place of a '{'")));
}

TEST(ParseNpyHeaderTest, TheLongestHeaderIsRead) {
  for (const size_t more : {0, 1}) {
    // A header of version 1.0 has 10 bytes before its text.
    std::string text(kMaxNpyHeaderBytes - 10 + more, ' ');
    text.replace(0, sizeof(kPlain) - 1, kPlain);
    text.back() = '\n';
    const std::string file = absl::StrCat(
        NpyHeaderOf(kPlain).substr(0, 8),
        std::string({static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)}),
        text);
    ASSERT_EQ(file.size(), kMaxNpyHeaderBytes + more);
    EXPECT_EQ(ParseNpyHeader(file).ok(), more == 0);
  }
}

TEST(ParseNpyHeaderTest, NoPrefixOfAHeaderIsOne) {
  const std::string file = NpyHeaderOf(kPlain);
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(ParseNpyHeader(file.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")))
        << size;
  }
}

TEST(MakeNpyHeaderTest, IsReadAsWhatWasMade) {
  const std::vector<std::vector<uint64_t>> shapes = {
      {}, {0}, {7}, {2, 3}, std::vector<uint64_t>(32, 1)};
  for (const std::vector<uint64_t>& shape : shapes) {
    for (const DType dtype :
         {DType::kBool, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8,
          DType::kUint16, DType::kUint32, DType::kUint64, DType::kFloat16, DType::kFloat32,
          DType::kFloat64, DType::kBfloat16}) {
      for (const size_t least : {0, 64, 1000}) {
        const std::string made = MakeNpyHeader(dtype, shape, least);
        EXPECT_GE(made.size(), least);
        PH_ASSERT_OK_AND_ASSIGN(const NpyHeader header, ParseNpyHeader(made));
        EXPECT_EQ(header.dtype, dtype == DType::kBfloat16 ? DType::kUint16 : dtype);
        EXPECT_EQ(header.shape, shape);
        EXPECT_EQ(header.header_bytes, made.size());
        // As numpy does, so that elements may be mapped.
        EXPECT_TRUE(made.size() % 64 == 0 || made.size() == least);
        const bool has_order = ElementBytes(dtype) != 1;
        EXPECT_THAT(made, HasSubstr(has_order ? "'descr': '<" : "'descr': '|"));
      }
    }
  }
}

// Whatever is read must be sound: its elements are as many as its shape says.
TEST(ParseNpyHeaderTest, AnyByteMayBeAnything) {
  const std::string file = NpyHeaderOf(kPlain);
  int read = 0;
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = file;
      changed[i] = static_cast<char>(value);
      const absl::StatusOr<NpyHeader> header = ParseNpyHeader(changed);
      if (!header.ok()) {
        ASSERT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      ++read;
      uint64_t elements = 1;
      for (const uint64_t extent : header->shape) elements *= extent;
      ASSERT_EQ(header->num_elements, elements);
      ASSERT_LE(header->header_bytes, changed.size());
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace packhouse
