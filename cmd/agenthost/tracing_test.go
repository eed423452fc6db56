package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traced "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/wing/devui"
)

// TestExportedSpans checks that a collector receives a run's spans with their IDs, nested, and with
// GenAI convention names. They contain messages only with contents, even if the Dev UI has them,
// and never the user.
func TestExportedSpans(t *testing.T) {
	for _, contents := range []bool{false, true} {
		t.Run(fmt.Sprint("contents=", contents), func(t *testing.T) {
			file := fmt.Sprintf("testdata/otlp/contents-%v.txtar", contents)
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := collectTraces(t, ar, contents, devui.NewTraces(true))
			at := slices.IndexFunc(ar.Files, func(f txtar.File) bool { return f.Name == "spans" })
			if updating() {
				ar.Files[at].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := gocmp.Diff(string(ar.Files[at].Data), got); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTracingSampler checks that a sampler decides what the collector receives, and not
// what the Dev UI shows.
func TestTracingSampler(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/otlp/contents-false.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		sampler, arg string
		exported     bool
	}{
		{"", "", true},
		{"always_on", "", true},
		{"always_off", "", false},
		{"traceidratio", "", true},
		{"traceidratio", "0", false},
		{"parentbased_always_on", "", true},
		{"parentbased_always_off", "", false},
		{"parentbased_traceidratio", "0", false},
		{"parentbased_traceidratio", "2", true}, // invalid
		{"unknown", "", true},
	} {
		t.Run(tt.sampler+tt.arg, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", tt.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", tt.arg)
			traces := devui.NewTraces(false)
			if got := collectTraces(t, ar, false, traces) != ""; got != tt.exported {
				t.Errorf("exported = %v, want %v", got, tt.exported)
			}
			w := httptest.NewRecorder()
			server.New(testenv.New(t, nil).Host, &server.Options{Extensions: serverExtensions(extensionOptions{ui: &devui.Options{Traces: traces}})}).ServeHTTP(w, httptest.NewRequest("GET", "/debug/trace/session/s", nil))
			if got := strings.Count(w.Body.String(), "span_id\":") - strings.Count(w.Body.String(), "parent_span_id\":"); w.Code != 200 || got != 5 {
				t.Errorf("the Dev UI shows %d spans, want 5: %d %s", got, w.Code, w.Body)
			}
		})
	}
}

// collectTraces runs an archive's app, and formats the spans that a collector receives.
func collectTraces(t *testing.T, ar *txtar.Archive, contents bool, traces *devui.Traces) string {
	t.Helper()
	var spans []*traced.Span
	collectorServer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var req collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				spans = append(spans, ss.Spans...)
			}
		}
	}))
	defer collectorServer.Close()
	flags := &observeFlags{otlp: collectorServer.URL, traceContents: contents}
	provider, flush, err := flags.newTracing(t.Context(), slog.New(slog.DiscardHandler), traces)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range ar.Files {
		files[f.Name] = f.Data
	}
	env := testenv.New(t, &testenv.Options{TracerProvider: provider, TraceContents: true})
	env.Load(t, testenv.Files(t, "app", files))
	req := &runtime.RunRequest{App: "app", UserID: "ana", SessionID: "s", CreateSession: true, Message: model.UserText("hi")}
	for _, err := range env.Host.Run(t.Context(), req) {
		if err != nil {
			break // the spans contain the error
		}
	}
	flush()
	slices.SortFunc(spans, func(a, b *traced.Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
	var out strings.Builder
	writeSpans(&out, spans, "", "")
	return out.String()
}

func writeSpans(out *strings.Builder, spans []*traced.Span, parent, indent string) {
	for _, s := range spans {
		if string(s.ParentSpanId) != parent {
			continue
		}
		status := ""
		if s.Status.GetCode() == traced.Status_STATUS_CODE_ERROR {
			status = " fails: " + s.Status.Message
		}
		fmt.Fprintf(out, "%s%s%s\n", indent, s.Name, status)
		// Attributes have no order.
		slices.SortFunc(s.Attributes, func(a, b *common.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
		for _, a := range s.Attributes {
			// The revision is the files' hash.
			if a.Key != "agenthost.revision" {
				fmt.Fprintf(out, "%s    %s = %s\n", indent, a.Key, formatValue(a.Value))
			}
		}
		writeSpans(out, spans, string(s.SpanId), indent+"  ")
	}
}

func formatValue(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, item := range v.ArrayValue.Values {
			all = append(all, formatValue(item))
		}
		return strings.Join(all, " ")
	}
	return fmt.Sprint(v)
}
