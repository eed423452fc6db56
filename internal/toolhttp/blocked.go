package toolhttp

import "net/http"

// Blocked is a transport that rejects all requests, for apps that must not reach a network.
type Blocked struct {
	// Plural noun for the apps in the error, such as tests.
	Who string
}

// RoundTrip returns a [*BlockedError]; see [http.RoundTripper].
func (b Blocked) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, &BlockedError{b.Who, req.URL.Host}
}

// A BlockedError is the error for a request that [Blocked] has rejected.
type BlockedError struct{ who, host string }

// Error contains the host but not the URL, which may contain a key.
func (e *BlockedError) Error() string {
	return e.who + " have no network access, request to " + e.host + " rejected"
}
