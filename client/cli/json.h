// What `--json` prints.
#ifndef PACKHOUSE_CLIENT_CLI_JSON_H_
#define PACKHOUSE_CLIENT_CLI_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace packhouse::client {

// Members keep the order in which they were added.
using Json = nlohmann::ordered_json;

// Indented, with the end of a line. A number is written so that the same double is read; one that
// is not finite, which JSON does not have, is null. What is not UTF-8 in a text becomes U+FFFD.
std::string JsonText(const Json& value);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_JSON_H_
