// The program packhouse-graph, all of it but main: its files are compiled together.
#ifndef PACKHOUSE_CLIENT_GRAPH_GRAPH_PROGRAM_H_
#define PACKHOUSE_CLIENT_GRAPH_GRAPH_PROGRAM_H_

namespace packhouse::client {

// Runs the command that `argv` names. The result is the exit code of the process. Messages and
// usage call the program what argv[0] does, so that the command packhouse may start it in its own
// name.
int RunGraphProgram(int argc, char** argv);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_GRAPH_PROGRAM_H_
