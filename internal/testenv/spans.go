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

// spans are those that a host told of.
type spans struct {
	mu  sync.Mutex
	all []*runtime.Span
}

func (s *spans) observe(span *runtime.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, span)
}

// text has a line for each span, in the order in which they began, inner ones
// below outer ones. An event's id is its number.
func (s *spans) text() string {
	slices.SortFunc(s.all, func(a, b *runtime.Span) int { return a.Began.Compare(b.Began) })
	var out strings.Builder
	s.write(&out, trace.SpanID{}, "")
	return out.String()
}

func (s *spans) write(out *strings.Builder, inside trace.SpanID, indent string) {
	for _, span := range s.all {
		if span.Parent.SpanID() != inside {
			continue
		}
		fmt.Fprintf(out, "%s%s %s%s\n", indent, span.Kind, span.Name, remarks(span))
		s.write(out, span.IDs.SpanID(), indent+"  ")
	}
}

func remarks(s *runtime.Span) string {
	var about []string
	if s.Agent != "" {
		about = append(about, "of "+s.Agent)
	}
	if s.Event != "" {
		number, _, _ := strings.Cut(s.Event, "-")
		about = append(about, "event "+cmp.Or(strings.TrimLeft(number, "0"), "0"))
	}
	if m := s.Model; m != nil {
		about = append(about, fmt.Sprintf("%d contents", len(m.Request.Contents)))
		if m.Response == nil {
			about = append(about, "no answer")
		}
	}
	if c := s.Tool; c != nil && c.Result != nil {
		about = append(about, fmt.Sprintf("answers %v", c.Result.Response))
	}
	if s.Err != nil {
		about = append(about, "fails: "+s.Err.Error())
	}
	if len(about) == 0 {
		return ""
	}
	return ": " + strings.Join(about, ", ")
}
