// A server that answers any call as a test says, and tells what it was asked.
#ifndef PACKHOUSE_TESTS_CLIENT_SCRIPTED_SERVER_H_
#define PACKHOUSE_TESTS_CLIENT_SCRIPTED_SERVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace packhouse::client {

// Fills all fields of `message`, of messages within it and two of each repeated field, with values
// that no other field has. Of a oneof the last field has one. Recursion ends after some levels.
inline void Fill(google::protobuf::Message& message, int& last, int levels = 5) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const Field* const field = message.GetDescriptor()->field(f);
    for (int i = 0; i < (field->is_repeated() ? 2 : 1); ++i) {
      const int value = ++last;
      const auto put = [&](auto set, auto add, auto what) {
        field->is_repeated() ? (reflection.*add)(&message, field, what)
                             : (reflection.*set)(&message, field, what);
      };
      using R = google::protobuf::Reflection;
      switch (field->cpp_type()) {
        case Field::CPPTYPE_INT32:
          put(&R::SetInt32, &R::AddInt32, value);
          break;
        case Field::CPPTYPE_INT64:
          put(&R::SetInt64, &R::AddInt64, value);
          break;
        case Field::CPPTYPE_UINT32:
          put(&R::SetUInt32, &R::AddUInt32, value);
          break;
        case Field::CPPTYPE_UINT64:
          put(&R::SetUInt64, &R::AddUInt64, value);
          break;
        case Field::CPPTYPE_DOUBLE:
          put(&R::SetDouble, &R::AddDouble, value);
          break;
        case Field::CPPTYPE_FLOAT:
          put(&R::SetFloat, &R::AddFloat, value);
          break;
        case Field::CPPTYPE_BOOL:
          put(&R::SetBool, &R::AddBool, true);
          break;
        case Field::CPPTYPE_ENUM:
          put(&R::SetEnumValue, &R::AddEnumValue,
              field->enum_type()->value(field->enum_type()->value_count() - 1)->number());
          break;
        case Field::CPPTYPE_STRING:
          put(&R::SetString, &R::AddString, absl::StrCat(value));
          break;
        case Field::CPPTYPE_MESSAGE:
          if (levels == 0) break;
          Fill(field->is_repeated() ? *reflection.AddMessage(&message, field)
                                    : *reflection.MutableMessage(&message, field),
               last, levels - 1);
      }
    }
  }
}

class ScriptedServer {
 public:
  struct Asked {
    std::string method;  // "DatasetService/GetDataset"
    std::string request;
    std::map<std::string, std::string> metadata;
    double seconds_left = 0;  // Until the call's deadline.
  };
  struct Answer {
    std::vector<std::string> messages;
    grpc::Status status;
    std::map<std::string, std::string> metadata = {};  // Behind them.
    bool goes_on = false;  // The stream does not end: its next message has the next answer.
    bool waits = false;    // The stream ends when the client cancels it.
  };
  using Script = std::function<Answer(const Asked&)>;

  explicit ScriptedServer(
      std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials()) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", std::move(credentials), &port);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~ScriptedServer() { server_->Shutdown(std::chrono::system_clock::time_point()); }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  const std::string& address() const { return address_; }
  // For all calls from now on, and forgets those before.
  void Plays(Script script) {
    const absl::MutexLock lock(&service_.mutex);
    service_.script = std::move(script);
    service_.asked.clear();
  }
  std::vector<Asked> asked() const {
    const absl::MutexLock lock(&service_.mutex);
    return service_.asked;
  }

 private:
  struct Service;

  // Answers the messages of a call.
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(Service* service, grpc::GenericCallbackServerContext* context)
        : service_(service), context_(context) {
      StartRead(&request_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::OK);
      grpc::Slice request;
      (void)request_.DumpToSingleSlice(&request);
      Asked asked = {context_->method().substr(std::string("/packhouse.v1.").size()),
                     {reinterpret_cast<const char*>(request.begin()), request.size()},
                     {}};
      for (const auto& [name, value] : context_->client_metadata()) {
        asked.metadata.emplace(std::string(name.data(), name.size()),
                               std::string(value.data(), value.size()));
      }
      const std::chrono::duration<double> left =
          context_->deadline() - std::chrono::system_clock::now();
      asked.seconds_left = left.count();
      {
        const absl::MutexLock lock(&service_->mutex);
        service_->asked.push_back(asked);
        answer_ = service_->script(asked);
      }
      for (const auto& [name, value] : answer_.metadata) context_->AddTrailingMetadata(name, value);
      num_written_ = 0;
      OnWriteDone(true);
    }
    void OnWriteDone(bool ok) override {
      if (ok && num_written_ == answer_.messages.size() && answer_.goes_on) {
        return StartRead(&request_);
      }
      if (ok && num_written_ == answer_.messages.size() && answer_.waits) {
        is_waiting_ = true;
        if (is_cancelled_) FinishOnce();
        return;
      }
      if (!ok || num_written_ == answer_.messages.size()) return Finish(answer_.status);
      const grpc::Slice slice(answer_.messages[num_written_++]);
      response_ = grpc::ByteBuffer(&slice, 1);
      StartWrite(&response_);
    }
    void OnCancel() override {
      is_cancelled_ = true;
      if (is_waiting_) FinishOnce();
    }
    void OnDone() override { delete this; }

   private:
    void FinishOnce() {
      if (!is_finished_.exchange(true)) Finish(grpc::Status::CANCELLED);
    }

    Service* const service_;
    grpc::GenericCallbackServerContext* const context_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
    Answer answer_;
    size_t num_written_ = 0;
    std::atomic<bool> is_waiting_ = false;
    std::atomic<bool> is_cancelled_ = false;
    std::atomic<bool> is_finished_ = false;
  };

  struct Service final : grpc::CallbackGenericService {
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override {
      return new Reactor(this, context);
    }
    mutable absl::Mutex mutex;
    Script script ABSL_GUARDED_BY(mutex);
    std::vector<Asked> asked ABSL_GUARDED_BY(mutex);
  };

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_TESTS_CLIENT_SCRIPTED_SERVER_H_
