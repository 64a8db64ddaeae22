// packhouse: the command line of the packing service. `packhouse --help` tells the rest.
#include "client/cli/packhouse.h"

int main(int argc, char** argv) { return packhouse::client::RunPackhouse(argc, argv); }
