package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// The log format flag, and its value for JSON.
const (
	flagLogFormat = "log-format"
	logFormatJSON = "json"
)

// observeFlags configure a host's logs, traces and profiles.
type observeFlags struct {
	logLevel, logFormat string
	otlp                string
	traceContents       bool
	pprof               bool
	metricsAddr         string
}

func (f *observeFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.logLevel, "log-level", "info", "log level: debug, info, warn or error")
	flags.StringVar(&f.logFormat, flagLogFormat, "text", "log format: text or json")
	flags.StringVar(&f.otlp, "otlp", "", "send traces to the OpenTelemetry collector at this URL, such as http://localhost:4318")
	flags.BoolVar(&f.traceContents, "trace-contents", false, "include messages, tool arguments and tool results in --otlp traces")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "also serve /metrics, /livez and /readyz at this address, without authentication, such as :9090 in a network that only operators reach")
	flags.BoolVar(&f.pprof, "pprof", false, "serve Go's profiler at /debug/pprof/ to callers on this machine; with --auth, to administrators only")
}

// newLogger returns the host's logger.
func (f *observeFlags) newLogger(env command.Env) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level must be debug, info, warn or error, got %q", f.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(env.Err, opts)), nil
	case logFormatJSON:
		return slog.New(slog.NewJSONHandler(env.Err, opts)), nil
	}
	return nil, fmt.Errorf("--log-format must be text or json, got %q", f.logFormat)
}

// problemReporter returns how a watch reports app problems: as text to out, or with --log-format
// json to report, which logs one entry per problem with its facts as attributes.
func (f *observeFlags) problemReporter(env command.Env, logger *slog.Logger) (out io.Writer, report func(loader.Status)) {
	if f.logFormat != logFormatJSON {
		return env.Err, nil
	}
	return nil, func(s loader.Status) {
		logProblems(context.Background(), logger.With("app", s.App), "app problem", s.Diagnostics)
	}
}

// logProblems logs one entry per problem, with its facts as attributes.
func logProblems(ctx context.Context, logger *slog.Logger, message string, ds spec.Diagnostics) {
	for _, d := range ds {
		level := slog.LevelError
		if d.Severity == spec.Warning {
			level = slog.LevelWarn
		}
		logger.Log(ctx, level, message, "file", d.Pos.File, "line", d.Pos.Line, "column", d.Pos.Col,
			"rule", d.Rule, "problem", d.Message, "hint", d.Hint, "source", d.Source)
	}
}

// hasJSONLog reports whether --log-format json applies to a command that failed, perhaps
// before its flags and its environment were read.
func hasJSONLog(cmd *cobra.Command, args []string) bool {
	flag := cmd.Flags().Lookup(flagLogFormat)
	switch {
	case flag == nil:
		return false
	case flag.Changed:
		return flag.Value.String() == logFormatJSON
	}
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+flagLogFormat+"="); ok {
			return value == logFormatJSON
		}
		if arg == "--"+flagLogFormat && i+1 < len(args) {
			return args[i+1] == logFormatJSON
		}
	}
	return os.Getenv(command.FlagVariable(flagLogFormat)) == logFormatJSON
}

// logFailure logs a command's failure with --log-format json, and each document problem that caused
// it.
func logFailure(ctx context.Context, env command.Env, cmd *cobra.Command, failure *command.ExitError) {
	logger := slog.New(slog.NewJSONHandler(env.Err, nil))
	text := failure.Err.Error()
	if document, ok := errors.AsType[*command.DocumentError](failure.Err); ok {
		logProblems(ctx, logger, "config problem", document.Problems)
		text = document.FormatSummary()
	}
	attrs := []any{"error", text, "exit_code", failure.Code}
	if failure.Code == command.ExitUsage {
		attrs = append(attrs, "hint", command.HelpHint(cmd))
	}
	logger.ErrorContext(ctx, cmd.Name()+" failed", attrs...)
}

// printNotice prints a line for the operator, or a log entry with --log-format json.
func (f *observeFlags) printNotice(env command.Env, logger *slog.Logger, text string) {
	if f.logFormat == logFormatJSON {
		logger.Info(text)
		return
	}
	fmt.Fprintln(env.Err, text)
}

// withProfiler adds Go's profiler to a handler if --pprof is set. Profiling can slow the
// host down and expose its memory, so it requires a local caller, and protect restricts
// it to administrators.
func (f *observeFlags) withProfiler(h http.Handler, protect func(http.Handler) http.Handler) http.Handler {
	if !f.pprof {
		return h
	}
	mux := http.NewServeMux()
	// No cmdline handler: flags may contain a database password.
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
