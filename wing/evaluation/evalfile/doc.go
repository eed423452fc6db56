// Package evalfile reads the eval sets that agenthost has in YAML: the *.eval.yaml files of
// an app. A file is one [eval.Set] with the criteria of its metrics.
//
// The files:
//
//	document.go   the fields of a file, its schema and reference
//	decode.go     cases and turns
//	stubs.go      the stubs of tools
//	criteria.go   metrics, rubrics and personas
package evalfile
