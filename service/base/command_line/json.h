// The output of `--json`.
#ifndef PACKHOUSE_SERVICE_BASE_COMMAND_LINE_JSON_H_
#define PACKHOUSE_SERVICE_BASE_COMMAND_LINE_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace packhouse {

// Members keep the order in which they were added.
using Json = nlohmann::ordered_json;

// Indented, and ends in a newline. A number is written so that the same double is read. A number
// that is not finite becomes null, since JSON has none. Bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const Json& value);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_COMMAND_LINE_JSON_H_
