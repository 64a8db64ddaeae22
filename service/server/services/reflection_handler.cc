#include "service/server/services/reflection_handler.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

namespace packhouse {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using Request = ReflectionHandler::Request;
using Response = ReflectionHandler::Response;

// The file and what it imports, each once.
void AddFile(const FileDescriptor* file, absl::flat_hash_set<const FileDescriptor*>& added,
             grpc::reflection::v1::FileDescriptorResponse& files) {
  if (!added.insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  proto.SerializeToString(files.add_file_descriptor_proto());
  for (int d = 0; d < file->dependency_count(); ++d) AddFile(file->dependency(d), added, files);
}

void AnswerNotFound(const std::string& what, Response& response) {
  response.mutable_error_response()->set_error_code(static_cast<int>(absl::StatusCode::kNotFound));
  response.mutable_error_response()->set_error_message(
      absl::StrCat("there is no '", absl::CHexEscape(what), "'"));
}

void AnswerFile(const FileDescriptor* file, const std::string& what, Response& response) {
  if (file == nullptr) return AnswerNotFound(what, response);
  absl::flat_hash_set<const FileDescriptor*> added;
  AddFile(file, added, *response.mutable_file_descriptor_response());
}

}  // namespace

absl::Status ReflectionHandler::Accept(std::unique_ptr<Request> request) {
  for (const std::string* name :
       {&request->host(), &request->file_by_filename(), &request->file_containing_symbol(),
        &request->file_containing_extension().containing_type(),
        &request->all_extension_numbers_of_type(), &request->list_services()}) {
    if (name->size() <= kMaxNameLength) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a name of ", name->size(), " bytes, at most ", kMaxNameLength));
  }
  Response response;
  response.set_valid_host(request->host());
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  switch (request->message_request_case()) {
    case Request::kFileByFilename:
      AnswerFile(pool.FindFileByName(request->file_by_filename()), request->file_by_filename(),
                 response);
      break;
    case Request::kFileContainingSymbol:
      AnswerFile(pool.FindFileContainingSymbol(request->file_containing_symbol()),
                 request->file_containing_symbol(), response);
      break;
    case Request::kFileContainingExtension: {
      const auto& asked = request->file_containing_extension();
      const Descriptor* const type = pool.FindMessageTypeByName(asked.containing_type());
      const FieldDescriptor* const extension =
          type == nullptr ? nullptr : pool.FindExtensionByNumber(type, asked.extension_number());
      AnswerFile(extension == nullptr ? nullptr : extension->file(),
                 absl::StrCat(asked.containing_type(), " ", asked.extension_number()), response);
      break;
    }
    case Request::kAllExtensionNumbersOfType: {
      const std::string& name = request->all_extension_numbers_of_type();
      const Descriptor* const type = pool.FindMessageTypeByName(name);
      if (type == nullptr) {
        AnswerNotFound(name, response);
        break;
      }
      auto& numbers = *response.mutable_all_extension_numbers_response();
      numbers.set_base_type_name(name);
      std::vector<const FieldDescriptor*> extensions;
      pool.FindAllExtensions(type, &extensions);
      for (const FieldDescriptor* extension : extensions) {
        numbers.add_extension_number(extension->number());
      }
      break;
    }
    case Request::kListServices:
      for (const std::string& name : *services_) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      return absl::InvalidArgumentError("the request asks for nothing");
  }
  *response.mutable_original_request() = std::move(*request);
  response_ = std::move(response);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Response>> ReflectionHandler::Next() {
  return std::exchange(response_, std::nullopt);
}

}  // namespace packhouse
