// Package evalfile reads the eval sets that agenthost has in YAML: the *.eval.yaml files in
// an app. A file is one [eval.Set] with its metrics' criteria.
//
// The files:
//
//	document.go   a file's fields, its schema and reference
//	decode.go     cases and turns
//	stubs.go      tool stubs
//	criteria.go   metrics, rubrics and personas
package evalfile
