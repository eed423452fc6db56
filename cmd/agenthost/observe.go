package main

import (
	"context"
	"fmt"
	goio "io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// observeFlags say how a host is watched.
type observeFlags struct {
	logLevel, logFormat string
	otlp                string
	traceContents       bool
	pprof               bool
}

func (f *observeFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.otlp, "otlp", "", "send traces to the OpenTelemetry collector of this URL, such as http://localhost:4318")
	flags.BoolVar(&f.traceContents, "trace-contents", false, "let what is said, and what tools are asked and answer, into the traces of --otlp")
	flags.BoolVar(&f.pprof, "pprof", false, "answer Go's profiler at /debug/pprof/, for callers on this machine, with --auth for administrators")
}

// newLogger is the host's log.
func (f *observeFlags) newLogger(io stdio) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q: write debug, info, warn or error", f.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(io.err, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(io.err, opts)), nil
	}
	return nil, fmt.Errorf("--log-format %q: write text or json", f.logFormat)
}

// problemReporter are where a watch prints the problems of apps, and what it reports
// them to: with --log-format json every line of the log is JSON, so that each
// problem is an entry with its facts as attributes.
func (f *observeFlags) problemReporter(io stdio, logger *slog.Logger) (out goio.Writer, report func(loader.Status)) {
	if f.logFormat != "json" {
		return io.err, nil
	}
	return nil, func(s loader.Status) {
		for _, d := range s.Diagnostics {
			level := slog.LevelError
			if d.Severity == spec.Warning {
				level = slog.LevelWarn
			}
			logger.Log(context.Background(), level, "app problem", "app", s.App, "file", d.Pos.File, "line", d.Pos.Line, "column", d.Pos.Col,
				"rule", d.Rule, "problem", d.Message, "hint", d.Hint, "source", d.Source)
		}
	}
}

// printNotice prints a line for the person who started the host, as a log entry with
// --log-format json.
func (f *observeFlags) printNotice(io stdio, logger *slog.Logger, text string) {
	if f.logFormat == "json" {
		logger.Info(text)
		return
	}
	fmt.Fprintln(io.err, text)
}

// newObserver is told of the spans of runs, and tells all who want to know; finish
// sends what has not been sent yet.
func (f *observeFlags) newObserver(ctx context.Context, logger *slog.Logger, all ...func(*runtime.Span)) (observe func(*runtime.Span), finish func(), err error) {
	finish = func() {}
	if f.otlp != "" {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("traces cannot be sent", "error", err) }))
		e, err := newExporter(ctx, f.otlp, f.traceContents)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, e.Observe)
		finish = func() {
			if err := e.close(); err != nil {
				logger.Warn("the last traces cannot be sent", "error", err)
			}
		}
	}
	return combineObservers(all...), finish, nil
}

// combineObservers tells several who want to hear of the spans of runs.
func combineObservers(all ...func(*runtime.Span)) func(*runtime.Span) {
	return func(s *runtime.Span) {
		for _, observe := range all {
			observe(s)
		}
	}
}

// withProfiler puts Go's profiler before a handler, if --pprof is set. Its users can slow
// the host down and read its memory: they are on this machine, and protect lets
// administrators only use it.
func (f *observeFlags) withProfiler(h http.Handler, protect func(http.Handler) http.Handler) http.Handler {
	if !f.pprof {
		return h
	}
	mux := http.NewServeMux()
	// There is no cmdline: flags may have the password of a database.
	for path, handle := range map[string]http.HandlerFunc{
		"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("/debug/pprof/"+path, handle)
	}
	profiler := protect(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/debug/pprof/") && isLocalRequest(r) {
			profiler.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLocalRequest says whether a request is from this machine and for it: not through a
// proxy that says so, not from the page of another site, and not by a name that
// somebody made point here.
func isLocalRequest(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	host, _, splitErr := net.SplitHostPort(r.Host)
	if err != nil || splitErr != nil {
		return false
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return from.Addr().IsLoopback() && (host == "localhost" || err == nil && addr.IsLoopback())
}
