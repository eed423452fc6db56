// Command proof starts the built program, treats it badly, and prints a table
// of what is promised and what was shown. It exits with 1 when something was
// not shown. It uses the loopback interface and a temporary folder only, and
// ends what it starts.
//
//	go run ./internal/proof -bin bin/agenthost
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// wholeLimit bounds everything, so that a host that hangs is a line that fails.
const wholeLimit = 170 * time.Second

// A lab is what the topics have in common.
type lab struct {
	bin   string // the program, as a path from anywhere
	bench string // the folder of the bench module
	dir   string // a temporary folder
}

// topics are made one after the other: they would disturb each other's times.
func topics() []topic {
	return []topic{
		{"restart after kill -9", restart},
		{"reload under a running conversation", reload},
		{"cold start", coldStart},
		{"check of 1000 agents", checkMany},
		{"the same work as adk-go", compareWithADK},
	}
}

func main() {
	bin := flag.String("bin", "bin/agenthost", "the program")
	bench := flag.String("bench", "bench", "the folder of the bench module")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := prove(ctx, *bin, *bench, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// prove goes through the topics and prints the table. It says whether every
// line is as it should be.
func prove(ctx context.Context, bin, bench string, out io.Writer) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	l, err := newLab(bin, bench)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(l.dir)
	var t table
	for _, p := range topics() {
		fmt.Fprintln(os.Stderr, p.name)
		t.add(ctx, l, p)
	}
	return t.ok(), t.print(out)
}

func newLab(bin, bench string) (*lab, error) {
	full, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(full); err != nil {
		return nil, fmt.Errorf("looking for the program (make build makes it): %w", err)
	}
	dir, err := os.MkdirTemp("", "agenthost-proof-")
	if err != nil {
		return nil, err
	}
	return &lab{bin: full, bench: bench, dir: dir}, nil
}
