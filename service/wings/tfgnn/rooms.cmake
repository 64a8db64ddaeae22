packhouse_room(tfgnn
  FOLDER wings/tfgnn
  SOURCES example_decoder.cc example_encoder.cc example_fields.cc example_plan.cc
          graph_schema_file.cc graph_schema_validation.cc graph_sets.cc random_graphs.cc readout.cc
          readout_structure.cc record_framing.cc row_builder.cc sampling_spec.cc schema_roles.cc
          size_constraints.cc text_or_binary.cc
  DEPENDS packhouse_graphs packhouse_tfgnn_proto)
