// packhouse-graph: large graphs in files, and TF-GNN's files. `packhouse-graph --help` tells the
// rest.
#include "client/graph/graph_program.h"

int main(int argc, char** argv) { return packhouse::client::RunGraphProgram(argc, argv); }
