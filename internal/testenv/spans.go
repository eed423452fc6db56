package testenv

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"agenthost/pkg/runtime"
)

// spans are the spans of a host.
type spans struct {
	mu  sync.Mutex
	all []*runtime.Span
}

func (s *spans) record(span *runtime.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, span)
}

// render returns a line for each span in order of its start, with child spans indented.
// An event ID is shown as its number.
func (s *spans) render() string {
	slices.SortFunc(s.all, func(a, b *runtime.Span) int { return a.Start.Compare(b.Start) })
	var out strings.Builder
	s.writeTree(&out, trace.SpanID{}, "")
	return out.String()
}

func (s *spans) writeTree(out *strings.Builder, inside trace.SpanID, indent string) {
	for _, span := range s.all {
		if span.Parent.SpanID() != inside {
			continue
		}
		fmt.Fprintf(out, "%s%s %s%s\n", indent, span.Kind, span.Name, describeSpan(span))
		s.writeTree(out, span.IDs.SpanID(), indent+"  ")
	}
}

func describeSpan(s *runtime.Span) string {
	var attrs []string
	if s.Agent != "" {
		attrs = append(attrs, "of "+s.Agent)
	}
	if s.Event != "" {
		number, _, _ := strings.Cut(s.Event, "-")
		attrs = append(attrs, "event "+cmp.Or(strings.TrimLeft(number, "0"), "0"))
	}
	if m := s.Model; m != nil {
		attrs = append(attrs, fmt.Sprintf("%d contents", len(m.Request.Contents)))
		if m.Response == nil {
			attrs = append(attrs, "no answer")
		}
	}
	if c := s.Tool; c != nil && c.Result != nil {
		attrs = append(attrs, fmt.Sprintf("answers %v", c.Result.Response))
	}
	if s.Err != nil {
		attrs = append(attrs, "fails: "+s.Err.Error())
	}
	if len(attrs) == 0 {
		return ""
	}
	return ": " + strings.Join(attrs, ", ")
}
