packhouse_room(security QUICK
  FOLDER access/security
  SOURCES file_authenticator.cc hmac_signer.cc jwt_keys.cc policy_file.cc reloader.cc
          security_files.cc small_file.cc static_tokens.cc tls_files.cc
  DEPENDS packhouse_admission absl::cleanup nlohmann_json::nlohmann_json yaml-cpp ${JWT_LIBRARY})
