// Package vertexstore keeps sessions in Vertex AI Agent Engine, through its REST API.
//
// The service stores sessions, events and state, but it has no transactions, no leases
// and no idempotent appends. The package compares versions and event ids itself before
// each append, which is safe for one host; two hosts must not write to one session at the
// same time. docs/vertex.md lists the differences from the other stores.
package vertexstore
