// Command proof verifies promises of the built program and its store under kills,
// faults and attacks, and prints tables of promises and results. It exits with 1 if a
// promise is not kept. It uses the loopback interface, a temporary folder, and new
// databases on the configured servers, and stops every process that it starts.
//
//	proof          the table of promises
//	proof -full    the same in the full form: hours
//	proof probes   counts that must be zero
//	proof replicas the cost of a turn with 1, 2 and 3 replicas
//
// It runs in the root of the repository, as make does: it builds programs, reads apps and
// runs tests there.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits for a run, so that a hang becomes a failed row.
const (
	shortLimit = 20 * time.Minute
	fullLimit  = 6 * time.Hour
)

// A lab holds what all proofs share.
type lab struct {
	bin      string // the program's absolute path
	self     string // this program
	bench    string // the bench module's folder
	dir      string // a temporary folder
	seed     uint64 // for all random choices
	full     bool   // the full form
	progress io.Writer
}

// describeRun returns the run's commit, seed and environment.
func (l *lab) describeRun() string {
	commit := "unknown"
	if out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	if out, err := exec.Command("git", "status", "--porcelain").Output(); err == nil && len(out) > 0 {
		commit += " with changes"
	}
	return fmt.Sprintf("commit %s, seed %d, %s, %d processors", commit, l.seed, runtime.Version(), runtime.NumCPU())
}

// allProofs returns the proofs. They run one after the other, so that they do not
// affect each other's times.
func allProofs() []proof {
	return slices.Concat([]proof{
		{"restart after kill -9", restartRows},
		{"reload during conversations", reloadRows},
		{"cold start", coldStartRows},
		{"check of 1000 agents", checkManyAgents},
	}, reloadProofs(), storeProofs(), clientProofs(), liveProofs(), rolloutProofs(), []proof{{"the same work as adk-go", benchRows}})
}

// options are the command-line flags.
type options struct {
	bin, bench string
	seed       uint64
	full       bool
	only       *regexp.Regexp
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runCommand(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// runCommand runs the program and returns its exit code.
func runCommand(ctx context.Context, args []string) int {
	verb := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	table := printProofs
	switch verb {
	case "child":
		return runChild(ctx, args, os.Stderr)
	case "probes":
		table = printProbes
	case "replicas":
		table = measureReplicas
	case "":
	default:
		fmt.Fprintf(os.Stderr, "proof: unknown command %q; hint: use probes, replicas, or no command for the table of promises\n", verb)
		return 2
	}
	o, err := parseFlags(args)
	if err != nil {
		return 2
	}
	ok, err := table(ctx, o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
	}
	if err != nil || !ok {
		return 1
	}
	return 0
}

// parseFlags parses the flags and prints errors.
func parseFlags(args []string) (*options, error) {
	o := &options{only: regexp.MustCompile("")}
	f := flag.NewFlagSet("proof", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin/agenthost", "the agenthost `program`")
	f.StringVar(&o.bench, "bench", "qa/bench", "the `folder` of the bench module")
	f.Uint64Var(&o.seed, "seed", 1, "the seed of all random choices")
	f.BoolVar(&o.full, "full", false, "run the full form, which takes hours")
	f.Func("run", "run only the proofs whose name matches this `regexp`", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	return o, f.Parse(args)
}

// printProofs runs the proofs, prints the table, and reports whether every promise is
// kept.
func printProofs(ctx context.Context, o *options, out io.Writer) (bool, error) {
	limit := shortLimit
	if o.full {
		limit = fullLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l, err := newLab(o)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(l.dir)
	var t table
	for _, p := range allProofs() {
		if o.only.MatchString(p.name) {
			fmt.Fprintln(l.progress, p.name)
			t.runProof(ctx, l, p)
		}
	}
	fmt.Fprintf(out, "%s\n\n", l.describeRun())
	return t.ok(), t.print(out)
}

// printProbes runs the probes, prints the table, and reports whether every count is
// zero.
func printProbes(ctx context.Context, o *options, out io.Writer) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, shortLimit)
	defer cancel()
	l, err := newLab(o)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(l.dir)
	return runProbes(ctx, l, o.only, out)
}

func newLab(o *options) (*lab, error) {
	full, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(full); err != nil {
		return nil, fmt.Errorf("finding the program: %w; hint: run make build", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agenthost-proof-")
	if err != nil {
		return nil, err
	}
	return &lab{bin: full, self: self, bench: o.bench, dir: dir, seed: o.seed, full: o.full, progress: os.Stderr}, nil
}
