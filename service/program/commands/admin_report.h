// What AdminService says, for people and for programs.
#ifndef PACKHOUSE_SERVICE_PROGRAM_COMMANDS_ADMIN_REPORT_H_
#define PACKHOUSE_SERVICE_PROGRAM_COMMANDS_ADMIN_REPORT_H_

#include <string>
#include <vector>

#include "google/protobuf/message.h"
#include "packhouse/v1/admin.pb.h"
#include "service/base/command_line/json.h"

namespace packhouse {

// As in `debug`.
std::string LevelText(v1::LogLevel level);
std::string StatusText(const v1::GetServerResponse& status);
std::string ClientsText(const v1::ListClientsResponse& clients);
std::string FilesText(const std::vector<v1::ServerFile>& files);
std::string SnapshotText(const v1::TakeSnapshotResponse& snapshot);

// The message as protobuf writes it in JSON, with the names of its proto; unset fields too.
Json MessageJson(const google::protobuf::Message& message);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_COMMANDS_ADMIN_REPORT_H_
