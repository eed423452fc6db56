// Command serve runs the Vertex AI imitation as a process, to try agenthost by hand:
//
//	go run ./internal/fake/fakevertex/serve 127.0.0.1:8099
//
// It prints the environment for agenthost, whose store is then agentengine://77, and whose
// memories may be in rag://5.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"agenthost/internal/fake/fakevertex"
)

func main() {
	address := "127.0.0.1:8099"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	s := &fakevertex.Server{Project: "p", Number: "1", Location: "l", Engines: []string{"77"}, Corpora: []string{"5"}, PollsUntilDone: 1, HiddenReads: 1}
	fmt.Printf("GOOGLE_CLOUD_PROJECT=p GOOGLE_CLOUD_LOCATION=l GOOGLE_VERTEX_BASE_URL=http://%s\n", address)
	server := &http.Server{Addr: address, Handler: s, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, "serving:", server.ListenAndServe())
	os.Exit(1)
}
