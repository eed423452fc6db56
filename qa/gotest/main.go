// Command gotest runs go test with the given arguments and prints its output without
// -v, and a line SKIPPED: for each skipped test, which go test omits. CI fails on those
// lines.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = errors.Join(printReport(out, os.Stdout), cmd.Wait())
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

// An event is a line from go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

// A testID identifies a test, or a package if the name is empty.
type testID struct{ pkg, name string }

// printReport prints a run's events.
func printReport(in io.Reader, out io.Writer) error {
	held := map[testID][]string{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var ev event
			if json.Unmarshal([]byte(line), &ev) != nil {
				ev = event{Action: "build-output", Output: line} // not from a test
			}
			if _, err := io.WriteString(out, ev.render(held)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// render returns the output for an event. It holds a test's output until the test ends.
func (ev *event) render(held map[testID][]string) string {
	id := testID{ev.Package, ev.Test}
	switch ev.Action {
	case "build-output":
		return ev.Output
	case "output":
		if strings.HasPrefix(ev.Output, "=== ") {
			return ""
		}
		if ev.Test == "" && isVerdict(ev.Output) {
			return ev.Output
		}
		held[id] = append(held[id], ev.Output)
		return ""
	case "pass", "fail", "skip":
		output := held[id]
		delete(held, id)
		switch {
		case ev.Action == "fail":
			return strings.Join(output, "")
		case ev.Action == "skip" && ev.Test != "":
			return fmt.Sprintf("SKIPPED: %s %s: %s\n", ev.Package, ev.Test, skipReason(output))
		}
	}
	return ""
}

// isVerdict reports whether a line is a package's result.
func isVerdict(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") || strings.HasPrefix(line, "FAIL\t")
}

// skipReason returns a skipped test's output in one line.
func skipReason(output []string) string {
	var lines []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "--- SKIP") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}
