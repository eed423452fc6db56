package main

import (
	"time"
)

// serverConfig configures a server process.
type serverConfig struct {
	// Side is adk-go, agenthost or net/http.
	Side string `json:"side"`
	// URL is the database URL; empty means memory. Setup is adk-go's configuration.
	URL    string `json:"url"`
	Setup  string `json:"setup"`
	Script script `json:"script"`
	// Answer is net/http's response.
	Answer *answer `json:"answer"`
	// Profile is the file for a CPU profile; empty means none.
	Profile string `json:"profile"`
}

// usage is a process's resource usage.
type usage struct {
	CPU time.Duration `json:"cpu"`
	// Peak is the maximum resident memory in bytes.
	Peak int64 `json:"peak"`
}

// serveVerb makes the program a server process. It prints its address, prints its resource usage
// for every input line, and exits when the input ends.
const serveVerb = "serve"

const (
	oursName   = "agenthost"
	theirsName = "adk-go"
	floorName  = "net/http"
)
