// Command proof treats the built program and its store badly, and prints tables
// of what is promised and what was shown. It exits with 1 when something was not
// shown. It uses the loopback interface, a temporary folder, and databases of
// its own on the servers that it is told of; it ends what it starts.
//
//	go run ./internal/proof          the table of promises
//	go run ./internal/proof -full    the same in its long form: hours
//	go run ./internal/proof probes   a table that must show zeros
//	go run ./internal/proof replicas what a turn costs with 1, 2 and 3 replicas
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

// The limits of everything, so that what hangs is a line that fails.
const (
	shortLimit = 20 * time.Minute
	fullLimit  = 6 * time.Hour
)

// A lab is what the topics have in common.
type lab struct {
	bin      string // the program, as a path from anywhere
	self     string // this program
	bench    string // the folder of the bench module
	dir      string // a temporary folder
	seed     uint64 // of everything that is left to chance
	full     bool   // the long form
	progress io.Writer
}

// describeRun says what was tried, when everything is over.
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

// allProofs are made one after the other: they would disturb each other's times.
func allProofs() []proof {
	return slices.Concat([]proof{
		{"restart after kill -9", restartRows},
		{"reload under a running conversation", reloadRows},
		{"cold start", coldStartRows},
		{"check of 1000 agents", checkManyAgents},
	}, reloadProofs(), storeProofs(), clientProofs(), []proof{{"the same work as adk-go", benchRows}})
}

// options is what the command line asks for.
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

// runCommand is the program; it returns the exit code.
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
		fmt.Fprintf(os.Stderr, "proof: %q is unknown: there are probes and replicas, and nothing for the table of promises\n", verb)
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

// parseFlags reads the flags; what is wrong with them is printed.
func parseFlags(args []string) (*options, error) {
	o := &options{only: regexp.MustCompile("")}
	f := flag.NewFlagSet("proof", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin/agenthost", "the program")
	f.StringVar(&o.bench, "bench", "bench", "the folder of the bench module")
	f.Uint64Var(&o.seed, "seed", 1, "the seed of what is left to chance")
	f.BoolVar(&o.full, "full", false, "the long form, which takes hours")
	f.Func("run", "only the topics whose name matches this `regexp`", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	return o, f.Parse(args)
}

// printProofs goes through the topics and prints the table. It says whether every
// line is as it should be.
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

// printProbes prints the table of zeros.
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
		return nil, fmt.Errorf("looking for the program (make build makes it): %w", err)
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
