package loader

import (
	"net/http"

	"go.opentelemetry.io/otel/propagation"
)

const traceparent = "Traceparent"

// A tracingTransport adds the current span to requests of models and tools (W3C Trace
// Context), so that their servers continue the trace. It does not forward the baggage
// of the caller's trace, because a server may be untrusted.
type tracingTransport struct{ base http.RoundTripper }

// RoundTrip sends one request. It keeps a traceparent header from the document.
func (t tracingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	header := http.Header{}
	propagation.TraceContext{}.Inject(req.Context(), propagation.HeaderCarrier(header))
	if span := header.Get(traceparent); span != "" && req.Header.Get(traceparent) == "" {
		req = req.Clone(req.Context())
		req.Header.Set(traceparent, span)
	}
	return t.base.RoundTrip(req)
}
