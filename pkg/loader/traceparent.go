package loader

import (
	"net/http"

	"go.opentelemetry.io/otel/propagation"
)

const traceparent = "Traceparent"

// A tracing transport tells whoever is asked by a model's or a tool's span which
// span that is (W3C Trace Context), so that its own go on with the trace. What the
// caller's trace carries besides is not passed on: who is asked may be anybody.
type tracingTransport struct{ base http.RoundTripper }

// RoundTrip carries one request. A header that the document gives stays.
func (t tracingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	header := http.Header{}
	propagation.TraceContext{}.Inject(req.Context(), propagation.HeaderCarrier(header))
	if span := header.Get(traceparent); span != "" && req.Header.Get(traceparent) == "" {
		req = req.Clone(req.Context())
		req.Header.Set(traceparent, span)
	}
	return t.base.RoundTrip(req)
}
