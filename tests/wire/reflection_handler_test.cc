#include "service/server/services/reflection_handler.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/rights.pb.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

class ReflectionHandlerTest : public ::testing::Test {
 protected:
  absl::Status Accept(const std::string& text) {
    auto request = std::make_unique<ReflectionHandler::Request>();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
    return handler_.Accept(std::move(request));
  }

  // The one answer.
  ReflectionHandler::Response Ask(const std::string& text) {
    EXPECT_THAT(Accept(text), IsOk());
    auto response = handler_.Next();
    EXPECT_FALSE(handler_.Next()->has_value());
    EXPECT_EQ((*response)->original_request().DebugString().empty(), text.empty());
    return **response;
  }

  // Names of the files in an answer.
  static std::vector<std::string> FilesOf(const ReflectionHandler::Response& response) {
    std::vector<std::string> names;
    for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(bytes));
      names.push_back(file.name());
    }
    return names;
  }

  // Links the messages of the service into this program.
  const v1::PackRequest request_;
  const std::vector<std::string> services_ = {"packhouse.v1.PackingService"};
  ReflectionHandler handler_{&services_};
};

TEST_F(ReflectionHandlerTest, ListsServices) {
  const auto response = Ask("host: 'h' list_services: '*'");
  EXPECT_EQ(response.valid_host(), "h");
  ASSERT_EQ(response.list_services_response().service_size(), 1);
  EXPECT_EQ(response.list_services_response().service(0).name(), services_[0]);
}

// A client can build all messages from the answer: nothing that is imported is missing, nothing
// comes twice.
TEST_F(ReflectionHandlerTest, GivesAFileWithAllThatItImports) {
  for (const char* request : {"file_containing_symbol: 'packhouse.v1.PackingService'",
                              "file_containing_symbol: 'packhouse.v1.PackRequest'",
                              "file_containing_symbol: 'packhouse.v1.PackingService.Pack'",
                              "file_by_filename: 'packhouse/v1/packing.proto'"}) {
    SCOPED_TRACE(request);
    const std::vector<std::string> files = FilesOf(Ask(request));
    ASSERT_FALSE(files.empty());
    EXPECT_EQ(files[0], "packhouse/v1/packing.proto");
    EXPECT_THAT(
        std::vector<std::string>(files.begin() + 1, files.end()),
        ::testing::UnorderedElementsAre(
            "google/protobuf/descriptor.proto", "google/protobuf/duration.proto",
            "packhouse/v1/batch.proto", "packhouse/v1/graphs.proto", "packhouse/v1/planning.proto",
            "packhouse/v1/rights.proto", "packhouse/v1/sizes.proto"));
  }
}

TEST_F(ReflectionHandlerTest, ExtensionsAreFoundByWhatTheyExtend) {
  const std::string type = "google.protobuf.FieldOptions";
  const auto told = Ask("all_extension_numbers_of_type: '" + type + "'");
  const auto& numbers = told.all_extension_numbers_response();
  EXPECT_EQ(numbers.base_type_name(), type);
  EXPECT_THAT(numbers.extension_number(),
              ::testing::IsSupersetOf({v1::right.number(), v1::thing.number()}));
  const auto files =
      FilesOf(Ask(absl::StrCat("file_containing_extension { containing_type: '", type,
                               "' extension_number: ", v1::right.number(), " }")));
  ASSERT_THAT(files, ::testing::SizeIs(2));
  EXPECT_EQ(files[0], "packhouse/v1/rights.proto");
}

TEST_F(ReflectionHandlerTest, SaysWhatIsNotThere) {
  for (const char* request :
       {"file_containing_symbol: 'packhouse.v1.Nothing'", "file_by_filename: 'nothing.proto'",
        "all_extension_numbers_of_type: 'Nothing'",
        "file_containing_extension { containing_type: 'packhouse.v1.PackRequest' "
        "extension_number: 7 }"}) {
    SCOPED_TRACE(request);
    const auto response = Ask(request);
    EXPECT_EQ(response.error_response().error_code(), 5);
    EXPECT_THAT(response.error_response().error_message(),
                ::testing::MatchesRegex("there is no '(packhouse.v1.Nothing|nothing.proto|Nothing|"
                                        "packhouse.v1.PackRequest 7)'"));
  }
  const auto none = Ask("all_extension_numbers_of_type: 'packhouse.v1.PackRequest'");
  EXPECT_EQ(none.all_extension_numbers_response().base_type_name(), "packhouse.v1.PackRequest");
  EXPECT_EQ(none.all_extension_numbers_response().extension_number_size(), 0);
}

TEST_F(ReflectionHandlerTest, RefusesLongNamesAndRequestsForNothing) {
  const std::string longest(ReflectionHandler::kMaxNameLength, 'n');
  EXPECT_THAT(Accept("file_by_filename: '" + longest + "'"), IsOk());
  for (const char* field : {"host", "file_by_filename", "file_containing_symbol", "list_services",
                            "all_extension_numbers_of_type"}) {
    EXPECT_THAT(Accept(std::string(field) + ": '" + longest + "n'"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("a name of 1025 bytes, at most 1024")));
  }
  EXPECT_THAT(Accept("file_containing_extension { containing_type: '" + longest + "n' }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a name of 1025 bytes, at most 1024")));
  EXPECT_THAT(Accept(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nothing")));
}

}  // namespace
}  // namespace packhouse
