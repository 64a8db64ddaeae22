// Ends the build with an error where the contract, whose folder is the argument, does not say which
// right a method, or what a text of its request names, needs; or where two methods have one type of
// request, by which the server knows them.
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "google/protobuf/descriptor.h"
#include "service/server/calls/request_rights.h"

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  std::set<std::string> sound;
  for (const packhouse::MethodRights& row : packhouse::AllMethodRights()) {
    if (row.is_sound) sound.insert(row.method);
  }
  std::map<const google::protobuf::Descriptor*, std::string> of_request;
  int status = EXIT_SUCCESS;
  for (const auto& each : std::filesystem::directory_iterator(argv[1])) {
    const auto* const file = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
        "packhouse/v1/" + each.path().filename().string());
    for (int i = 0; file != nullptr && i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        const std::string& method = file->service(i)->method(k)->full_name();
        const auto* const request = file->service(i)->method(k)->input_type();
        if (const auto [other, is_new] = of_request.emplace(request, method); !is_new) {
          std::cerr << method << ": needs a request of its own, " << request->full_name()
                    << " is that of " << other->second << "\n";
          status = EXIT_FAILURE;
        }
        if (sound.contains(method)) continue;
        std::cerr
            << method
            << ": needs (call_right), each text of its request (thing), as in rights.proto, and "
            << "its file a place in request_rights.cc\n";
        status = EXIT_FAILURE;
      }
    }
  }
  return status;
}
