#!/bin/sh
# Says in SPDX 2.3 (JSON) what an image consists of:
#   sbom.sh ROOT VERSION COMMIT > packhouse.spdx.json
# Its Debian packages, from ROOT/var/lib/dpkg/status, and our programs with their checksums. The time is
# SOURCE_DATE_EPOCH, if that is set.
set -eu
export LC_ALL=C

root=$1 version=$2 commit=$3
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)
(cd "$root" && sha256sum usr/local/bin/*) | awk -v version="$version" -v commit="$commit" \
    -v created="$created" '
  # The checksums.
  FNR == NR { sums[++programs] = $1; files[programs] = $2; next }
  # The status: paragraphs, fields at the beginnings of lines.
  /^Package: /      { name = $2; source = name; sourced = "" }
  /^Source: /       { source = $2; sourced = $3; gsub(/[()]/, "", sourced) }
  /^Architecture: / { architecture = $2 }
  /^Version: /      { of_package = $2 }
  /^$/ && name != "" {
    names[++packages] = name; versions[packages] = of_package; architectures[packages] = architecture
    sources[packages] = source; of_sources[packages] = sourced == "" ? of_package : sourced
    name = ""
  }
  function id(text) { gsub(/[^A-Za-z0-9.-]/, "-", text); return "SPDXRef-" text }
  function url(text) { gsub(/\+/, "%2B", text); gsub(/:/, "%3A", text); gsub(/~/, "%7E", text); return text }
  END {
    printf "{\n  \"spdxVersion\": \"SPDX-2.3\",\n  \"dataLicense\": \"CC0-1.0\",\n"
    printf "  \"SPDXID\": \"SPDXRef-DOCUMENT\",\n  \"name\": \"packhouse-%s\",\n", version
    printf "  \"documentNamespace\": \"urn:packhouse:sbom:%s:%s\",\n", version, commit
    printf "  \"creationInfo\": {\"created\": \"%s\", \"creators\": [\"Tool: packhouse-sbom.sh\"]},\n", created
    printf "  \"documentDescribes\": [\"SPDXRef-packhouse\"],\n  \"packages\": [\n"
    printf "    {\"SPDXID\": \"SPDXRef-packhouse\", \"name\": \"packhouse\", \"versionInfo\": \"%s\", ", version
    printf "\"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"licenseConcluded\": \"Apache-2.0\", "
    printf "\"licenseDeclared\": \"Apache-2.0\", \"copyrightText\": \"NOASSERTION\", \"sourceInfo\": \"commit %s\"}", commit
    for (i = 1; i <= packages; ++i) {
      printf ",\n    {\"SPDXID\": \"%s\", \"name\": \"%s\", \"versionInfo\": \"%s\", ", id("deb-" names[i]), names[i], versions[i]
      printf "\"supplier\": \"Organization: Debian\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, "
      printf "\"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": \"NOASSERTION\", \"copyrightText\": \"NOASSERTION\", "
      printf "\"sourceInfo\": \"built from %s %s; licences in /usr/share/doc/%s/copyright\", ", sources[i], of_sources[i], names[i]
      printf "\"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", "
      printf "\"referenceLocator\": \"pkg:deb/debian/%s@%s?arch=%s&distro=debian-12\"}]}", url(names[i]), url(versions[i]), architectures[i]
    }
    printf "\n  ],\n  \"files\": [\n"
    for (i = 1; i <= programs; ++i) {
      printf "%s    {\"SPDXID\": \"%s\", \"fileName\": \"./%s\", ", i == 1 ? "" : ",\n", id("file-" files[i]), files[i]
      printf "\"checksums\": [{\"algorithm\": \"SHA256\", \"checksumValue\": \"%s\"}], ", sums[i]
      printf "\"licenseConcluded\": \"Apache-2.0\", \"copyrightText\": \"NOASSERTION\"}"
    }
    printf "\n  ],\n  \"relationships\": [\n"
    printf "    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-packhouse\"}"
    for (i = 1; i <= packages; ++i) {
      printf ",\n    {\"spdxElementId\": \"SPDXRef-packhouse\", \"relationshipType\": \"DEPENDS_ON\", \"relatedSpdxElement\": \"%s\"}", id("deb-" names[i])
    }
    for (i = 1; i <= programs; ++i) {
      printf ",\n    {\"spdxElementId\": \"SPDXRef-packhouse\", \"relationshipType\": \"CONTAINS\", \"relatedSpdxElement\": \"%s\"}", id("file-" files[i])
    }
    printf "\n  ]\n}\n"
  }' - "$root/var/lib/dpkg/status"
