// The program packhouse, all of it but main: the library's files are compiled together.
#ifndef PACKHOUSE_CLIENT_CLI_PACKHOUSE_H_
#define PACKHOUSE_CLIENT_CLI_PACKHOUSE_H_

namespace packhouse::client {

// Runs the command that `argv` names. The result is the exit code of the process.
int RunPackhouse(int argc, char** argv);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_PACKHOUSE_H_
