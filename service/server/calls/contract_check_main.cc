// Ends the build with an error where the contract, whose folder is the argument, does not say which
// right a method, or what a text of its request names, needs.
#include <cstdlib>
#include <filesystem>
#include <iostream>
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
  int status = EXIT_SUCCESS;
  for (const auto& each : std::filesystem::directory_iterator(argv[1])) {
    const auto* const file = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
        "packhouse/v1/" + each.path().filename().string());
    for (int i = 0; file != nullptr && i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        const std::string& method = file->service(i)->method(k)->full_name();
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
