// Checks custom resources against the schemas of their operators.
//
//   node check.mjs < OBJECTS.json
//
// Reads a JSON list of Kubernetes objects. Prints what is wrong, one line each; exit status 1 if
// anything is, or if there is no schema for an object.
import { readFileSync } from "node:fs";

const modules = {
  "cert-manager.io/v1": () => import("@kubernetes-models/cert-manager/cert-manager.io/v1"),
  "monitoring.coreos.com/v1": () =>
    import("@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1"),
};

const complaints = [];
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const { apiVersion, kind, metadata } = object;
  const Model = (await modules[apiVersion]?.())?.[kind];
  if (Model === undefined) {
    complaints.push(`${apiVersion} ${kind}: no schema`);
    continue;
  }
  try {
    new Model(object).validate();
  } catch (error) {
    complaints.push(`${kind} ${metadata.name}: ${error.message}`);
  }
}
for (const complaint of complaints) console.log(complaint);
process.exitCode = complaints.length === 0 ? 0 : 1;
