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

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// observeFlags configure logs, traces and profiles of a host.
type observeFlags struct {
	logLevel, logFormat string
	otlp                string
	traceContents       bool
	pprof               bool
}

func (f *observeFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.logLevel, "log-level", "info", "log level: debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "log format: text or json")
	flags.StringVar(&f.otlp, "otlp", "", "send traces to the OpenTelemetry collector at this URL, such as http://localhost:4318")
	flags.BoolVar(&f.traceContents, "trace-contents", false, "include messages, tool arguments and tool results in the traces of --otlp")
	flags.BoolVar(&f.pprof, "pprof", false, "serve Go's profiler at /debug/pprof/ to callers on this machine; with --auth, to administrators only")
}

// newLogger returns the host's logger.
func (f *observeFlags) newLogger(io stdio) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level must be debug, info, warn or error, got %q", f.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(io.err, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(io.err, opts)), nil
	}
	return nil, fmt.Errorf("--log-format must be text or json, got %q", f.logFormat)
}

// problemReporter returns how a watch reports the problems of apps: as text to out, or
// with --log-format json to report, which logs one entry per problem with its facts as
// attributes.
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

// printNotice prints a line for the operator, or a log entry with --log-format json.
func (f *observeFlags) printNotice(io stdio, logger *slog.Logger, text string) {
	if f.logFormat == "json" {
		logger.Info(text)
		return
	}
	fmt.Fprintln(io.err, text)
}

// withProfiler adds Go's profiler to a handler if --pprof is set. Profiling can slow the
// host down and expose its memory, so it requires a local caller, and protect restricts
// it to administrators.
func (f *observeFlags) withProfiler(h http.Handler, protect func(http.Handler) http.Handler) http.Handler {
	if !f.pprof {
		return h
	}
	mux := http.NewServeMux()
	// No cmdline handler: flags may contain the password of a database.
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

// isLocalRequest reports whether a request comes from this machine and is addressed to
// it. It rejects forwarded requests, cross-site requests, and host names that are not
// loopback names, which guards against DNS rebinding.
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
