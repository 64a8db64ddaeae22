packhouse_room(tfgnn
  FOLDER wings/tfgnn
  SOURCES example_decoder.cc example_encoder.cc example_fields.cc example_plan.cc
          graph_schema_file.cc graph_schema_validation.cc graph_sets.cc random_graphs.cc readout.cc
          readout_structure.cc record_framing.cc row_builder.cc sampling_spec.cc schema_roles.cc
          size_constraints.cc text_or_binary.cc
  DEPENDS packhouse_graphs packhouse_tfgnn_proto)

# Messages, for the fuzzers too.
packhouse_room(tfgnn_wire
  FOLDER wings/tfgnn
  SOURCES export_source.cc tfgnn_format.cc wire_examples.cc
  DEPENDS packhouse_wire packhouse_tfgnn)


if(PACKHOUSE_WITH_GRPC)
  packhouse_room(tfgnn_services QUICK
    FOLDER wings/tfgnn
    HEADERS packhouse_grpc_headers
    SOURCES tfgnn_server.cc
    DEPENDS packhouse_rpc packhouse_tfgnn_wire)

  # What packhoused has of it.
  packhouse_room(tfgnn_wing QUICK
    FOLDER program/wings
    HEADERS packhouse_grpc_headers
    SOURCES tfgnn.cc
    DEPENDS packhouse_tfgnn_services packhouse_program)
endif()
